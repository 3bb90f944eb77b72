// Calls that wait for a time wait for all of it, and are ended by the program's handlers only, while another thread changes what
// signals do: that takes part of every thread.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kWays = 9, kMilliseconds = 60 };
static atomic_int stop;
static int ends[2];

static void nothing(int signal) {}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int wait_in(long way, int milliseconds) {
  struct pollfd one = {ends[0], POLLIN, 0};
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  struct timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};
  struct epoll_event event;
  sigset_t signals, none;
  char byte;
  sigemptyset(&none);
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR2);
  const int events = epoll_create1(0);
  int result = 0;
  switch (way) {
    case 0: result = poll(&one, 1, milliseconds); break;
    case 1: result = epoll_wait(events, &event, 1, milliseconds); break;
    case 2: result = epoll_pwait(events, &event, 1, milliseconds, &none); break;
    case 3: result = usleep(milliseconds * 1000); break;
    case 4: result = nanosleep(&time, NULL); break;
    case 5: result = clock_nanosleep(CLOCK_REALTIME, 0, &time, &time); break;
    case 6: result = sigtimedwait(&signals, NULL, &time) == -1 && errno == EAGAIN ? 0 : -1; break;
    case 7:
      setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      result = recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN ? 0 : -1;
      break;
    case 8: result = select(ends[0] + 1, &(fd_set){0}, NULL, NULL, &limit); break;
  }
  close(events);
  return result;
}

static void* wait_all(void* way) {
  for (int i = 0; i < 3; i++) {
    const double start = now();
    const int result = wait_in((long)way, kMilliseconds);
    if (result != 0 || now() - start < kMilliseconds - 0.01) return "cut short";
  }
  return "waited";
}

static void* is_ended(void* way) {
  const int result = wait_in((long)way, 100000);
  return result == 0 ? "not ended" : "ended";
}

static void* change(void* unused) {
  while (!stop) signal(SIGUSR2, nothing);
  return NULL;
}

int main(void) {
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  struct sigaction restarting = {.sa_handler = nothing, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &restarting, NULL);
  pthread_t changer, waiters[kWays];
  pthread_create(&changer, NULL, change, NULL);
  void* said;
  for (long way = 0; way < kWays; way++) pthread_create(&waiters[way], NULL, wait_all, (void*)way);
  for (long way = 0; way < kWays; way++) pthread_join(waiters[way], &said), printf("%ld %s\n", way, (char*)said);
  for (long way = 0; way < kWays; way++) {
    if (way == 6 || way == 7) continue;  // handlers end these as well; they are looked at with their errors above
    pthread_create(&waiters[way], NULL, is_ended, (void*)way);
    while (pthread_tryjoin_np(waiters[way], &said) != 0) pthread_kill(waiters[way], SIGUSR1), usleep(1000);
    printf("%ld %s\n", way, (char*)said);
  }
  stop = 1;
  pthread_join(changer, NULL);
}
