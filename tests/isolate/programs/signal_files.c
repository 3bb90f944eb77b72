// signalfd: a thread reads the signals of the program, polls or waits in epoll for them, whoever made the descriptor and sent them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t set;
static int fd, epoll, other_epoll, again;
static pthread_barrier_t turn;
static void meet(void) { pthread_barrier_wait(&turn); }

static void tell(const char* what, const struct signalfd_siginfo* s, ssize_t got) {
  if (got != sizeof *s) printf("%s: %zd %d\n", what, got, got < 0 ? errno : 0);
  else printf("%s: %u, by kill %d, from here %d, value %d\n", what, s->ssi_signo, s->ssi_code == SI_USER, s->ssi_pid == getpid(), s->ssi_int);
}
static void read_one(const char* what) {
  struct signalfd_siginfo s;
  memset(&s, 0, sizeof s);
  tell(what, &s, read(fd, &s, sizeof s));
}
static void* reads(void* unused) {
  meet();
  read_one("read");
  meet();
  read_one("from outside");
  meet();
  read_one("queued");
  meet();
  struct pollfd one = {fd, POLLIN, 0};
  printf("poll: %d\n", poll(&one, 1, -1));
  read_one("polled");
  printf("poll: %d\n", poll(&one, 1, 0));
  meet();  // something is pending from before
  meet();
  printf("poll: %d %d\n", poll(&one, 1, 0), poll(&one, 1, 0));
  fcntl(fd, F_SETFL, O_NONBLOCK);
  read_one("not waiting");
  read_one("nothing");
  meet();  // several
  meet();
  struct signalfd_siginfo many[5];
  const ssize_t got = read(fd, many, sizeof many);
  printf("several: %zd", got / (ssize_t)sizeof many[0]);
  for (int i = 0; i < 3; i++) printf(" %d", many[i].ssi_int);
  printf("\n");
  struct epoll_event event = {0};
  meet();
  printf("epoll: %d", epoll_wait(epoll, &event, 1, -1));
  printf(" %lu\n", (unsigned long)event.data.u64);
  read_one("waited for");
  meet();
  struct epoll_event ask = {.events = EPOLLIN, .data.u64 = 5};
  other_epoll = epoll_create1(0);
  epoll_ctl(other_epoll, EPOLL_CTL_ADD, again, &ask);
  meet();
  printf("own epoll: %d", epoll_wait(other_epoll, &event, 1, -1));
  printf(" %lu\n", (unsigned long)event.data.u64);
  read_one("again");
  close(fd);
  char letter = 0;
  int ends[2];
  pipe(ends);
  dup2(ends[0], fd);
  write(ends[1], "x", 1);
  printf("another file: %zd", read(fd, &letter, 1));
  printf(" %c\n", letter);
  meet();
  return unused;
}
static void* waits(void* unused) {
  struct signalfd_siginfo s;
  read(again, &s, sizeof s);
  return unused;
}

int main(void) {
  pthread_t thread;
  void* end;
  char command[64];
  setbuf(stdout, NULL);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1), sigaddset(&set, SIGTERM), sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  fd = signalfd(-1, &set, 0);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&thread, NULL, reads, NULL);
  meet();
  kill(getpid(), SIGTERM);
  meet();
  sprintf(command, "kill -USR1 %d", getpid());
  system(command);
  meet();
  sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 7});
  meet();
  kill(getpid(), SIGUSR1);
  meet();
  kill(getpid(), SIGUSR1);
  meet();
  meet();
  for (int i = 1; i <= 3; i++) sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
  meet();
  epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event ask = {.events = EPOLLIN, .data.u64 = 4};
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ask);
  meet();
  kill(getpid(), SIGUSR1);
  again = signalfd(-1, &set, SFD_CLOEXEC);
  meet();
  meet();
  kill(getpid(), SIGUSR1);
  meet();
  pthread_join(thread, NULL);
  pthread_create(&thread, NULL, waits, NULL);
  usleep(10000);
  pthread_cancel(thread);
  pthread_join(thread, &end);
  printf("cancelled: %d\n", end == PTHREAD_CANCELED);
  kill(getpid(), SIGUSR1);
  fd = again;
  read_one("main");
  return 0;
}
