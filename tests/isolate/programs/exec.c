// exec from a thread, or from main while threads run, by each of the calls: the process id stays, the threads end. The caller's CPU and
// niceness stay as well; and a filter that ends whoever calls execveat ends nobody who does not.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char** environ;
static char before[32];
static const char* call;
static void refuse_execveat(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(9);
}
static void become(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  setpriority(PRIO_PROCESS, gettid(), 3);
  if (!strcmp(call, "filtered")) refuse_execveat();
  execl("/nowhere/to/be/found", "x", NULL);
  printf("failed as it should\n");
  fflush(stdout);
  static const char look[] = "test $$ = $1 && echo same process; read left < /proc/$$/task/$$/children; echo \"left: $left\"; nproc; nice; exit 11";
  char* const shell[] = {"sh", "-c", (char*)look, "sh", before, NULL};
  if (!strcmp(call, "execve") || !strcmp(call, "filtered")) execve("/bin/sh", shell, environ);
  if (!strcmp(call, "fexecve")) fexecve(open("/bin/sh", O_RDONLY | O_CLOEXEC), shell, environ);
  if (!strcmp(call, "execveat")) execveat(open("/bin", O_PATH | O_CLOEXEC), "sh", shell, environ, 0);
  if (!strcmp(call, "syscall")) syscall(SYS_execve, "/bin/sh", shell, environ);
}
static void* work(void* in_thread) {
  if (in_thread) become();
  for (;;) pause();
  return NULL;
}

int main(int count, char** arguments) {
  const int in_thread = !strcmp(arguments[1], "thread");
  call = arguments[2];
  snprintf(before, sizeof before, "%d", getpid());
  pthread_t thread, idle;
  pthread_create(&idle, NULL, work, NULL);
  pthread_create(&thread, NULL, work, in_thread ? arguments : NULL);
  usleep(10000);
  if (!in_thread) become();
  pthread_join(thread, NULL);
  return 1;
}
