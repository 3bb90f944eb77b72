// The function of a timer that was never set is called for none that was deleted before.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile int wrong;
static void never(union sigval unused) { wrong = 1; }
static void often(union sigval unused) {}
static void* nothing(void* unused) { return unused; }
static timer_t make(void (*function)(union sigval)) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = function};
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  return timer;
}

int main(void) {
  const struct itimerspec at_once = {{0, 0}, {0, 1}};
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  for (int i = 0; i < 3000; i++) {
    timer_t timer = make(often);
    timer_settime(timer, 0, &at_once, NULL);
    if (i % 3) usleep(i % 3 * 30 - 10);
    timer_delete(timer);
    timer = make(never);
    if (i % 7 == 0) usleep(100);
    timer_delete(timer);
  }
  usleep(50000);
  printf("wrong: %d\n", wrong);
  return 0;
}
