/* Threads that are made while an action is changed for all: none may begin with the action of before, or with what is left of the call
 * that changed it. The creators are made late, so that their threads have records that come before their own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kSleepers = 30, kCreators = 4, kMade = 3, kChanges = 3000 };
static atomic_uint changes;  // odd: in the middle of one
static atomic_int go, stop, stale;

static int is_ignored(void) {
  struct { void (*handler)(int); unsigned long flags, restorer, mask; } now;  // as the kernel has it
  syscall(SYS_rt_sigaction, SIGURG, NULL, &now, 8L);
  return now.handler == SIG_IGN;
}
static void* look(void* unused) {
  const unsigned before = changes;
  const int ignored = is_ignored();
  if (changes == before && before % 2 == 0 && ignored != (int)(before / 2 % 2)) ++stale;
  return unused;
}
static void* create(void* unused) {
  pthread_t made[kMade];
  while (!stop) {
    for (int i = 0; i < kMade; ++i) pthread_create(&made[i], NULL, look, NULL);
    for (int i = 0; i < kMade; ++i) pthread_join(made[i], NULL);
  }
  return unused;
}
static void* sleep_till_then(void* unused) {
  while (!go) usleep(1000);
  return unused;
}
__attribute__((noinline)) static void use_the_stack(void) {
  volatile char bytes[8192];
  for (int i = 0; i < (int)sizeof bytes; ++i) bytes[i] = 5;
}

int main(void) {
  pthread_t sleepers[kSleepers], creators[kCreators];
  for (int i = 0; i < kSleepers; ++i) pthread_create(&sleepers[i], NULL, sleep_till_then, NULL);
  for (int i = 0; i < kCreators; ++i) pthread_create(&creators[i], NULL, create, NULL);
  go = 1;
  for (int i = 0; i < kSleepers; ++i) pthread_join(sleepers[i], NULL);
  for (int i = 1; i <= kChanges; ++i) {
    ++changes;
    signal(SIGURG, i % 2 ? SIG_IGN : SIG_DFL);
    use_the_stack();
    ++changes;
    usleep(300);
  }
  stop = 1;
  for (int i = 0; i < kCreators; ++i) pthread_join(creators[i], NULL);
  printf("stale: %d\n", stale);
}
