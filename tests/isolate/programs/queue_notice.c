// A notice of a message queue is the program's: any thread may ask for it, end it, or end it by closing a descriptor.
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char name[32];
static mqd_t queue;
static sigset_t set;

static int ask(void) {
  const struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 42};
  return mq_notify(queue, &event) ? errno : 0;
}

static void* asks(void* unused) { return printf("asks: %s\n", strerror(ask())), NULL; }
static void* asks_again(void* unused) { return printf("asks again: %s\n", strerror(ask())), NULL; }
static void* ends_it(void* unused) { return printf("ends it: %d\n", mq_notify(queue, NULL)), NULL; }
static void* closes_another(void* unused) { return printf("closes another: %d\n", mq_close(mq_open(name, O_RDONLY))), NULL; }
static void* nothing(void* unused) { return unused; }

static void in_thread(void* (*what)(void*)) {
  pthread_t thread;
  pthread_create(&thread, NULL, what, NULL);
  pthread_join(thread, NULL);
}

static void look(void) {
  const struct timespec at_once = {0, 0};
  siginfo_t info;
  char text[16];
  mq_send(queue, "news", 5, 1);
  const int taken = sigtimedwait(&set, &info, &at_once);
  printf("told: %d %d\n", taken == SIGUSR1, taken == SIGUSR1 && info.si_code == SI_MESGQ ? info.si_value.sival_int : 0);
  mq_receive(queue, text, sizeof text, NULL);
}

int main(void) {
  struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 16};
  snprintf(name, sizeof name, "/notice-%d", getpid());
  queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  in_thread(nothing);
  ask(), look();
  ask(), in_thread(asks_again), in_thread(ends_it), look();
  ask(), in_thread(closes_another), look();
  in_thread(asks), in_thread(asks_again), look();
  in_thread(asks), printf("main ends it: %d\n", mq_notify(queue, NULL)), look();
  mq_close(queue), mq_unlink(name);
}
