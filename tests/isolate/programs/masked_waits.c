// A call lets one signal in for its time, and its handler reads what another thread has mapped meanwhile. A thread waits for a signalfd by
// the same calls.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <unistd.h>

static char* volatile text;
static volatile char seen;
static pthread_t main_thread;
static void on_signal(int n) { seen = text[0]; }

static void* maps(void* unused) {
  const int file = memfd_create("text", 0);
  ftruncate(file, 4096), pwrite(file, "m", 1, 0);
  text = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  pthread_kill(main_thread, SIGUSR1);  // blocked until main waits
  return unused;
}

static int wait_for(int way, const sigset_t* mask) {
  const int epoll = epoll_create1(0);
  struct epoll_event event;
  const struct timespec time = {100, 0};
  const int result = way == 0   ? sigsuspend(mask)
                     : way == 1 ? pselect(0, NULL, NULL, NULL, &time, mask)
                     : way == 2 ? ppoll(NULL, 0, &time, mask)
                                : epoll_pwait(epoll, &event, 1, -1, mask);
  const int error = errno;
  close(epoll);
  return errno = error, result;
}

static void* reads(void* file) {
  const int fd = *(int*)file;
  fd_set set;
  struct signalfd_siginfo info;
  for (int way = 0; way < 3; ++way) {
    struct pollfd one = {fd, POLLIN, 0};
    struct timeval time = {100, 0};
    FD_ZERO(&set);
    FD_SET(fd, &set);
    kill(getpid(), SIGUSR2);
    const int ready = way == 0   ? select(fd + 1, &set, NULL, NULL, &time)
                      : way == 1 ? pselect(fd + 1, &set, NULL, NULL, NULL, NULL)
                                 : ppoll(&one, 1, NULL, NULL);
    printf("ready: %d %d", ready, way == 0 ? time.tv_sec < 100 : way);
    printf(" read: %d\n", read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2);
  }
  return NULL;
}

int main(void) {
  sigset_t all, but_one, two;
  main_thread = pthread_self();
  signal(SIGUSR1, on_signal);
  sigfillset(&all), sigfillset(&but_one), sigdelset(&but_one, SIGUSR1), sigemptyset(&two), sigaddset(&two, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  pthread_t thread;
  for (int way = 0; way < 4; ++way) {
    seen = 0;
    pthread_create(&thread, NULL, maps, NULL);
    const int result = wait_for(way, &but_one);
    printf("%d %s: %c\n", result, strerror(errno), seen);
    pthread_join(thread, NULL);
  }
  int file = signalfd(-1, &two, 0);
  pthread_create(&thread, NULL, reads, &file);
  pthread_join(thread, NULL);
}
