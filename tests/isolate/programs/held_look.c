// A thread looks whether a signal has come that was sent to the program, and a tracer holds who fetches it for the thread, right when it has
// it: the thread has given up waiting by then, and finds it nevertheless.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRounds = 5 };

static struct Shared {
  atomic_int number, may_look, seen;
} * shared;
static sigset_t set;

static void* looks(void* unused) {
  const struct timespec at_once = {0, 0};
  shared->number = gettid();
  while (!shared->may_look) usleep(100);
  kill(getpid(), SIGUSR1);
  shared->seen += sigtimedwait(&set, NULL, &at_once) == SIGUSR1;
  shared->seen += sigtimedwait(&set, NULL, &at_once) < 0;
  return unused;
}

static void look(void) {
  pthread_t thread;
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_create(&thread, NULL, looks, NULL);
  pthread_join(thread, NULL);
  _exit(0);
}

/// Whether the task sleeps in that system call.
static int is_in(int process, int task, int call) {
  char name[100], text[100] = "";
  snprintf(name, sizeof name, "/proc/%d/task/%d/syscall", process, task);
  FILE* const file = fopen(name, "r");
  if (!file) return 0;
  fgets(text, sizeof text, file);
  fclose(file);
  return atoi(text) == call && text[0] >= '0' && text[0] <= '9';
}

/// 0: not now. With ordinary threads nobody fetches.
static int who_fetches(int process) {
  char name[100];
  int found = 0;
  snprintf(name, sizeof name, "/proc/%d/task", process);
  DIR* const folder = opendir(name);
  for (struct dirent* entry; (entry = readdir(folder));)
    if (is_in(process, atoi(entry->d_name), SYS_rt_sigtimedwait)) found = atoi(entry->d_name);
  closedir(folder);
  return found;
}

static int is_of(int process, int task) {
  char name[100];
  snprintf(name, sizeof name, "/proc/%d/task/%d", process, task);
  return access(name, F_OK) == 0;
}

static void hold(int task) {
  ptrace(PTRACE_SEIZE, task, NULL, PTRACE_O_TRACESYSGOOD);
  ptrace(PTRACE_INTERRUPT, task, NULL, NULL);
  waitpid(task, NULL, __WALL);
}

/// Until it enters sigtimedwait, or has got a signal there.
static void go_on_until(int task, long answer) {
  struct user_regs_struct r;
  int status, signal = 0;
  do {
    ptrace(PTRACE_SYSCALL, task, NULL, signal);
    if (waitpid(task, &status, __WALL) != task || !WIFSTOPPED(status)) return;
    signal = WSTOPSIG(status) & 0x80 || status >> 16 ? 0 : WSTOPSIG(status);
    ptrace(PTRACE_GETREGS, task, NULL, &r);
  } while (!(WSTOPSIG(status) & 0x80) || r.orig_rax != SYS_rt_sigtimedwait || (long)r.rax != answer);
}

static void look_while_one_is_held(int process, int thread) {
  int fetcher;
  while (!(fetcher = who_fetches(process))) usleep(100);
  hold(thread), hold(fetcher);
  shared->may_look = 1;
  go_on_until(thread, -ENOSYS);
  go_on_until(fetcher, SIGUSR1);
  ptrace(PTRACE_DETACH, thread, NULL, NULL);
  while (!is_in(thread, thread, SYS_futex) && is_of(thread, thread)) usleep(100);
  ptrace(PTRACE_DETACH, fetcher, NULL, NULL);
}

int main(void) {
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < kRounds; ++round) {
    shared->number = shared->may_look = 0;
    const pid_t child = fork();
    if (child == 0) look();
    while (!shared->number) usleep(100);
    if (is_of(child, shared->number)) shared->may_look = 1;
    else look_while_one_is_held(child, shared->number);
    waitpid(child, NULL, 0);
  }
  printf("seen: %d of %d\n", shared->seen, 2 * kRounds);
  return 0;
}
