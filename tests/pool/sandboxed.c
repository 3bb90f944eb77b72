/* If this fails, a pool hands blocks out twice in a program that has locked itself in: a seccomp filter answers membarrier with an error,
 * so nobody can restart the sections of other cores any more, whose magazines trim empties. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mortise/pool.h"

enum { kBlocks = 400, kHeld = 60, kThreads = 3, kTrims = 1500 };

static mo_pool* pool;
static int in_use[kBlocks], stop, wrong;

static void* work(void* argument) {
  unsigned random = (unsigned)(size_t)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    void* held[kHeld];
    random = random * 1664525 + 1013904223;
    unsigned n = 0;
    for (const unsigned wish = (random >> 16) % kHeld; n < wish && (held[n] = mo_pool_try_acquire(pool)); ++n) {
      const uint32_t index = mo_pool_index_of(pool, held[n]);
      if (index >= kBlocks || __atomic_exchange_n(&in_use[index], 1, __ATOMIC_SEQ_CST)) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    }
    while (n--) {
      __atomic_store_n(&in_use[mo_pool_index_of(pool, held[n])], 0, __ATOMIC_SEQ_CST);
      mo_pool_release(pool, held[n]);
    }
  }
  return NULL;
}

static int refuse_membarrier(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

int main(void) {
  pool = mo_pool_create(&(mo_pool_options){.size = 64, .maximum = kBlocks});
  if (!pool || refuse_membarrier()) return perror("sandboxed"), 2;
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, work, (void*)(i + 1))) return 2;
  for (int i = 0; i < kTrims && !__atomic_load_n(&wrong, __ATOMIC_RELAXED); ++i) {
    mo_pool_trim(pool, 0);
    usleep(500);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  if (wrong) return fprintf(stderr, "%d blocks were handed out that were in use, or are none\n", wrong), 1;
  /* What lay in the magazines of other cores is found: */
  for (int i = 0; i < kBlocks; ++i)
    if (!mo_pool_try_acquire(pool)) return fprintf(stderr, "only %d blocks are to be had\n", i), 1;
  return 0;
}
