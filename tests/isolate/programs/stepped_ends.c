// Main ends the other threads one after the other, step by step under a tracer. One of them ends by itself meanwhile, each time so many
// steps after the one before it was killed: wherever in main's look at it that is, nobody else is killed.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kSteps = 40 };

static struct Shared {
  pthread_barrier_t begun;
  atomic_int number, may_leave;
} * shared;

static void* stays(void* unused) {
  pthread_barrier_wait(&shared->begun);
  for (;;) pause();
}

static void* leaves(void* unused) {
  shared->number = gettid();
  pthread_barrier_wait(&shared->begun);
  while (!shared->may_leave) usleep(100);
  return unused;
}

static void end_traced(void) {
  pthread_t threads[2];
  setpgid(0, 0);  // whoever kills its group kills nobody else
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  pthread_barrier_init(&shared->begun, NULL, 3);
  pthread_create(&threads[0], NULL, stays, NULL);
  pthread_create(&threads[1], NULL, leaves, NULL);
  pthread_barrier_wait(&shared->begun);
  __asm__ volatile("int3");
  _exit(7);
}

static int is_about_to_kill(pid_t main) {
  struct user_regs_struct r;
  ptrace(PTRACE_GETREGS, main, NULL, &r);
  return r.rax == SYS_kill && r.rsi == SIGKILL && (ptrace(PTRACE_PEEKTEXT, main, r.rip, NULL) & 0xffff) == 0x050f;
}

static void let_it_leave(void) {
  shared->may_leave = 1;
  while (kill(shared->number, 0) == 0) usleep(100);  // and then its record is seen to
  usleep(1000);
}

static int end_of(pid_t child, int after) {
  int status = 0, steps = -1;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    if (steps < 0 && is_about_to_kill(child)) steps = 0;
    else if (steps >= 0 && ++steps == after) let_it_leave();
    ptrace(steps < after ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL);
  }
  return status;
}

int main(void) {
  int as_asked = 0;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int after = 1; after <= kSteps; ++after) {
    *shared = (struct Shared){0};
    const pid_t child = fork();
    if (child == 0) end_traced();
    const int status = end_of(child, after);
    as_asked += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  printf("as asked: %d of %d\n", as_asked, kSteps);
  return 0;
}
