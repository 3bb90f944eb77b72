// C11 threads: thrd, mtx of all kinds, cnd, tss with destructors, call_once.
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

static mtx_t plain, recursive, timed;
static cnd_t changed;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;
static int ready, onces, destroyed, sum;
static thread_local int local = 5;

static void count_once(void) { ++onces; }
static void destroy(void* p) {
  mtx_lock(&plain);
  ++destroyed;
  mtx_unlock(&plain);
  free(p);
}

static int work(void* number) {
  call_once(&once, count_once);
  tss_set(key, malloc(8));
  local += *(int*)number;
  mtx_lock(&recursive);
  mtx_lock(&recursive);
  sum += local;
  mtx_unlock(&recursive);
  mtx_unlock(&recursive);
  mtx_lock(&plain);
  while (!ready) cnd_wait(&changed, &plain);
  mtx_unlock(&plain);
  if (*(int*)number == 3) thrd_exit(77);
  return local;
}

int main(void) {
  thrd_t threads[4];
  int numbers[] = {0, 1, 2, 3}, result;
  mtx_init(&plain, mtx_plain);
  mtx_init(&recursive, mtx_plain | mtx_recursive);
  mtx_init(&timed, mtx_timed);
  cnd_init(&changed);
  tss_create(&key, destroy);
  for (int i = 0; i < 4; ++i)
    if (thrd_create(&threads[i], work, &numbers[i]) != thrd_success) return 1;
  mtx_lock(&plain);
  ready = 1;
  cnd_broadcast(&changed);
  mtx_unlock(&plain);
  for (int i = 0; i < 4; ++i) {
    thrd_join(threads[i], &result);
    printf("result %d\n", result);
  }
  mtx_lock(&timed);
  struct timespec soon;
  timespec_get(&soon, TIME_UTC);
  soon.tv_nsec = (soon.tv_nsec + 20000000) % 1000000000;
  soon.tv_sec += soon.tv_nsec < 20000000;
  const int waited = mtx_timedlock(&timed, &soon) == thrd_timedout, busy = mtx_trylock(&timed) == thrd_busy;
  printf("timed lock gives up: %d, trylock busy: %d\n", waited, busy);
  printf("once %d destroyed %d sum %d local %d\n", onces, destroyed, sum, local);
  return 0;
}
