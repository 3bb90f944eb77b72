/* Shuts itself in by a filter that ends it for the call by which the analysis asks what may be read, and allocates only then. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

struct node {
  struct node* next;
  long value[2];
};

int main(void) {
  struct sock_filter calls[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof calls / sizeof *calls, calls};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return perror("prctl"), 2;
  struct node* list = NULL;
  for (int i = 0; i < 50000; ++i) {
    struct node* const n = malloc(sizeof *n);
    n->next = list;
    list = n;
  }
  return list == NULL;
}
