// A thread says again who may trace the program, before or after which it was made: the kernel, which may know of no such thing, is made to
// agree once and to end who says it again.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void answer(unsigned what) {  // prctl(PR_SET_PTRACER)
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PTRACER, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, what),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static void* nothing(void* unused) { return unused; }

static void make_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
}

int main(int count, char** arguments) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  answer(SECCOMP_RET_ERRNO);  // 0: done
  if (count > 1) make_thread();
  printf("%d\n", prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0));
  fflush(stdout);
  answer(SECCOMP_RET_KILL_PROCESS);
  if (fork() == 0) return make_thread(), 0;  // a child has no tracer
  int status = 0;
  wait(&status);
  printf("child: %d\n", status);
  fflush(stdout);
  make_thread();
  puts("not said again");
}
