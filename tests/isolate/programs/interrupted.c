// Calls that any handler ends: what the runtime does in other threads meanwhile must not end them, the program's handler must.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

enum { kWays = 11, kNanosleep = 5, kTasks = 30 };
static const char* const names[kWays] = {"sigsuspend", "pause", "poll", "select", "epoll_wait", "nanosleep",
                                         "sigwaitinfo", "sem_timedwait", "semop", "msgsnd", "msgrcv"};
static atomic_int asleep, returned, handled;
static void on_usr1(int n) { ++handled; }
static void on_usr2(int n) {}

struct message {
  long type;
  char text[8000];
};
static int fill(int messages) {
  const struct message message = {.type = 1};
  while (msgsnd(messages, &message, sizeof message.text, 0) == 0) {
  }
  return -1;
}

static void* call(void* way) {
  int pipe_ends[2];
  pipe(pipe_ends);
  sigset_t none;
  sigemptyset(&none);
  struct pollfd one = {pipe_ends[0], POLLIN, 0};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pipe_ends[0], &set);
  struct epoll_event event = {.events = EPOLLIN};
  const int group = epoll_create1(0);
  epoll_ctl(group, EPOLL_CTL_ADD, pipe_ends[0], &event);
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const int semaphores = semget(IPC_PRIVATE, 1, 0600), messages = msgget(IPC_PRIVATE, 0600);
  struct sembuf down = {0, -1, 0};
  struct message message;
  const struct timespec far = {time(NULL) + 10000, 0};
  struct timespec second = {1, 0}, left = {0, 0}, begin, end;
  int result = 0;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  errno = 0;
  asleep = 1;
  switch ((long)way) {
    case 0: result = sigsuspend(&none); break;
    case 1: result = pause(); break;
    case 2: result = poll(&one, 1, -1); break;
    case 3: result = select(pipe_ends[0] + 1, &set, NULL, NULL, NULL); break;
    case 4: result = epoll_wait(group, &event, 1, -1); break;
    case kNanosleep: result = nanosleep(&second, &left); break;
    case 6: result = sigwaitinfo(&none, NULL); break;
    case 7: result = sem_timedwait(&semaphore, &far); break;
    case 8: result = semop(semaphores, &down, 1); break;
    case 9: result = fill(messages); break;
    case 10: result = msgrcv(messages, &message, 1, 0, 0); break;
  }
  const int interrupted = errno == EINTR;
  returned = 1;
  semctl(semaphores, 0, IPC_RMID);
  msgctl(messages, IPC_RMID, NULL);
  clock_gettime(CLOCK_MONOTONIC, &end);
  const int early = (long)way == kNanosleep && (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec < 1000000000;
  printf("%s: %d, interrupted %d, handled %d, early %d\n", names[(long)way], result, interrupted, handled > 0, early);
  return NULL;
}

int main(void) {
  signal(SIGUSR1, on_usr1);
  for (long way = 0; way < kWays; ++way) {
    pthread_t thread;
    asleep = returned = handled = 0;
    pthread_create(&thread, NULL, call, (void*)way);
    while (!asleep) usleep(100);
    for (int i = 0; i < kTasks; ++i) {
      signal(SIGUSR2, i % 2 ? on_usr2 : SIG_DFL);  // done in every address space, by a signal of the runtime
      usleep(300);
    }
    if (way != kNanosleep) printf("returned before: %d\n", returned);  // a whole second may be over by now
    while (way != kNanosleep && !returned) pthread_kill(thread, SIGUSR1), usleep(1000);  // the first may come before the call that it is to end
    pthread_join(thread, NULL);
  }
  return 0;
}
