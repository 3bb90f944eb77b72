// A thread that is cancelled where it waits for a signal: the next one is for whoever waits then.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t set;
static sem_t begins, cleans, may_end;
static int epoll, fd;
static const char* how;

static void clean(void* unused) {
  sem_post(&cleans);
  sem_wait(&may_end);
}
static void* waits(void* unused) {
  int n;
  struct epoll_event event;
  struct signalfd_siginfo s;
  struct pollfd one = {fd, POLLIN, 0};
  pthread_cleanup_push(clean, NULL);
  sem_post(&begins);
  if (!strcmp(how, "sigwait")) sigwait(&set, &n);
  if (!strcmp(how, "read")) read(fd, &s, sizeof s);
  if (!strcmp(how, "poll")) poll(&one, 1, -1);
  if (!strcmp(how, "epoll")) epoll_wait(epoll, &event, 1, -1);
  pthread_cleanup_pop(0);
  return unused;
}

int main(int count, char** arguments) {
  how = arguments[1];
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sem_init(&begins, 0, 0), sem_init(&cleans, 0, 0), sem_init(&may_end, 0, 0);
  fd = signalfd(-1, &set, 0);
  epoll = epoll_create1(0);
  struct epoll_event ask = {.events = EPOLLIN};
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ask);
  pthread_t thread;
  pthread_create(&thread, NULL, waits, NULL);
  sem_wait(&begins);
  usleep(20000);
  pthread_cancel(thread);
  sem_wait(&cleans);
  kill(getpid(), SIGUSR1);
  usleep(20000);
  int n = 0;
  sigwait(&set, &n);
  printf("main: %d\n", n == SIGUSR1);
  sem_post(&may_end);
  pthread_join(thread, NULL);
  return 0;
}
