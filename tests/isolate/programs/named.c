/* What a program asks of a thread by its name, at once after making it, and how one that is asked to end comes to its end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(condition) ((condition) ? (void)0 : (void)(printf("line %d: does not hold: %s\n", __LINE__, #condition), exit(1)))

static int ways[2];
static void* waits(void* none) {
  char c;
  EXPECT(read(ways[0], &c, 1) == 1);
  return none;
}

static void pinned_at_once(void) {
  cpu_set_t all, one, now;
  EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  for (int i = 0; i < 30; ++i) {
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, waits, NULL) == 0);
    EXPECT(pthread_setaffinity_np(t, sizeof one, &one) == 0);
    EXPECT(pthread_getaffinity_np(t, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one));
    EXPECT(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &all));
    clockid_t clock;
    struct timespec used;
    EXPECT(pthread_getcpuclockid(t, &clock) == 0 && clock_gettime(clock, &used) == 0);
    EXPECT(write(ways[1], "", 1) == 1 && pthread_join(t, NULL) == 0);
  }
}

static void* reads_undisturbed(void* told) {
  char c;
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  EXPECT(write(*(int*)told, "", 1) == 1);
  EXPECT(read(ways[0], &c, 1) == 1); /* not EINTR */
  pthread_setcancelstate(before, &before);
  pthread_testcancel();
  return NULL;
}

static void not_cancelled_yet(void) {
  int there[2];
  char c;
  pthread_t t;
  void* result;
  EXPECT(pipe(there) == 0 && pthread_create(&t, NULL, reads_undisturbed, &there[1]) == 0);
  EXPECT(read(there[0], &c, 1) == 1);
  usleep(50000);
  EXPECT(pthread_cancel(t) == 0);
  usleep(50000);
  EXPECT(write(ways[1], "", 1) == 1 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
}

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void on_fault(int number) {
  handled = number;
  siglongjmp(back, 1);
}

int main(void) {
  EXPECT(pipe(ways) == 0);
  signal(SIGSEGV, on_fault); /* before the first thread: it stays */
  pinned_at_once();
  not_cancelled_yet();
  if (sigsetjmp(back, 1) == 0) *(volatile char*)16 = 1;
  EXPECT(handled == SIGSEGV);
  struct sigaction now;
  EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == on_fault);
  puts("as asked");
  return 0;
}
