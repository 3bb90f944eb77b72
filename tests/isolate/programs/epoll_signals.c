// Threads that wait in one epoll descriptor for a signalfd: two at once, among many other files, and main after a thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static int epoll, fd;
static sem_t told;
static pthread_t threads[3];

static void put(int file, unsigned events) {
  struct epoll_event ask = {.events = events, .data.u64 = 4};
  epoll_ctl(epoll, EPOLL_CTL_ADD, file, &ask);
}
static int wait_and_read(int milliseconds) {
  struct epoll_event event;
  struct signalfd_siginfo s;
  if (epoll_wait(epoll, &event, 1, milliseconds) != 1 || event.data.u64 != 4) return 0;
  return read(fd, &s, sizeof s) == sizeof s ? s.ssi_signo : 0;
}
static void* waits(void* unused) {
  for (;;)
    if (wait_and_read(-1) == SIGUSR1) sem_post(&told);
}
static void* waits_once(void* unused) {
  printf("told: %d\n", wait_and_read(-1) == SIGUSR1);
  return unused;
}
static void* puts_and_waits(void* events) {
  if (events) put(fd, EPOLLIN);
  printf("nothing: %d\n", wait_and_read(20));
  return NULL;
}
static void* sends_soon(void* unused) {
  usleep(20000);
  kill(getpid(), SIGUSR1);
  return unused;
}
static void start(int i, void* (*what)(void*), void* argument) { pthread_create(&threads[i], NULL, what, argument); }

int main(int count, char** arguments) {
  const char* const how = arguments[1];
  setbuf(stdout, NULL);
  sem_init(&told, 0, 0);
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  epoll = epoll_create1(EPOLL_CLOEXEC);
  fd = signalfd(-1, &set, SFD_NONBLOCK);
  if (!strcmp(how, "several") || !strcmp(how, "exclusive")) {
    put(fd, EPOLLIN | (how[0] == 'e' ? EPOLLEXCLUSIVE : 0));
    for (int i = 0; i < 3; i++) start(i, waits, NULL);
    for (int i = 0; i < 50; i++) {
      if (i % 5 == 0) usleep(5000);  // all sleep
      kill(getpid(), SIGUSR1);
      sem_wait(&told);
    }
    printf("all\n");
    _exit(0);
  }
  if (!strcmp(how, "many")) {
    for (int i = 0; i < 400; i++) put(i == 200 ? fd : eventfd(0, 0), EPOLLIN);
    start(0, waits_once, NULL);
    sends_soon(NULL);
    pthread_join(threads[0], NULL);
    return 0;
  }
  const int main_puts = !strcmp(how, "main");
  if (main_puts) put(fd, EPOLLIN);
  start(0, puts_and_waits, main_puts ? NULL : &set);
  pthread_join(threads[0], NULL);
  start(0, sends_soon, NULL);
  waits_once(NULL);
  pthread_join(threads[0], NULL);
  close(fd);  // and another file under its number
  const int ends = eventfd(0, EFD_NONBLOCK);
  put(ends, EPOLLIN);
  eventfd_write(ends, 1);
  struct epoll_event event = {0};
  printf("another file: %d", epoll_wait(epoll, &event, 1, -1));
  printf(" %lu\n", (unsigned long)event.data.u64);
  return 0;
}
