// mortise-calls FILE PROGRAM ARGV0 [ARGUMENT]...: runs the program and all it starts to the end, counts their system
// calls, and writes the counts as one line of JSON. For a run that is never timed: every call stops twice. Exit
// status: the program's own, 128 + signal if one ended it.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// What an allocator asks for, and what tells a program apart; everything else counts as other.
static const struct {
  const char* name;
  uint64_t number;
} kNames[] = {{"mmap", SYS_mmap}, {"munmap", SYS_munmap}, {"mremap", SYS_mremap}, {"madvise", SYS_madvise},
              {"mprotect", SYS_mprotect}, {"brk", SYS_brk}, {"futex", SYS_futex}, {"sched_yield", SYS_sched_yield},
              {"membarrier", SYS_membarrier}, {"clock_nanosleep", SYS_clock_nanosleep}, {"getrandom", SYS_getrandom},
              {"clone", SYS_clone}, {"clone3", SYS_clone3}, {"execve", SYS_execve}, {"read", SYS_read}, {"write", SYS_write},
              {"openat", SYS_openat}, {"close", SYS_close}};
enum { kNamed = sizeof kNames / sizeof *kNames };

static uint64_t counts[kNamed], others;
static pid_t program;

static void pass_on(int signal) { kill(program, signal); }

static void count(pid_t pid) {
  struct __ptrace_syscall_info info;
  if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
  for (int i = 0; i < kNamed; i++)
    if (kNames[i].number == info.entry.nr) {
      counts[i]++;
      return;
    }
  others++;
}

static void resume(pid_t pid, int status) {
  int event = status >> 16, signal = WSTOPSIG(status);
  if (event == PTRACE_EVENT_STOP && (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)) {
    ptrace(PTRACE_LISTEN, pid, 0, 0);
    return;
  }
  long deliver = 0;
  if (signal == (SIGTRAP | 0x80)) count(pid);
  else if (event == 0) deliver = signal;
  ptrace(PTRACE_SYSCALL, pid, 0, (void*)deliver);
}

static int write_counts(const char* path) {
  FILE* file = fopen(path, "we");
  if (file == NULL) return 1;
  uint64_t all = others;
  fprintf(file, "{");
  for (int i = 0; i < kNamed; i++) {
    fprintf(file, "\"%s\":%llu,", kNames[i].name, (unsigned long long)counts[i]);
    all += counts[i];
  }
  fprintf(file, "\"other\":%llu,\"all\":%llu}\n", (unsigned long long)others, (unsigned long long)all);
  return fclose(file);
}

int main(int words, char** values) {
  if (words < 4) {
    fprintf(stderr, "mortise-calls: expected FILE PROGRAM ARGV0 [ARGUMENT]...\n");
    return 2;
  }
  int gate[2];
  if (pipe(gate) != 0) return 126;
  program = fork();
  if (program == 0) {
    char go;
    close(gate[1]);
    if (read(gate[0], &go, 1) != 1) _exit(126);
    close(gate[0]);
    execv(values[2], values + 3);
    fprintf(stderr, "mortise-calls: cannot execute '%s': %s\n", values[2], strerror(errno));
    _exit(127);
  }
  long wanted = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                PTRACE_O_EXITKILL;
  if (program < 0 || ptrace(PTRACE_SEIZE, program, 0, wanted) != 0) {
    fprintf(stderr, "mortise-calls: the program cannot be traced here: %s\n", strerror(errno));
    if (program > 0) kill(program, SIGKILL);
    return 126;
  }
  signal(SIGTERM, pass_on);
  signal(SIGINT, pass_on);
  ptrace(PTRACE_INTERRUPT, program, 0, 0);
  if (write(gate[1], "g", 1) != 1) return 126;
  close(gate[0]);
  close(gate[1]);
  int status, end = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;) {
    if (pid <= 0) continue;
    if (WIFSTOPPED(status)) resume(pid, status);
    else if (pid == program) end = status;
  }
  if (write_counts(values[1]) != 0) return 126;
  return WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
}
