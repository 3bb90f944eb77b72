/* If this fails, C programs cannot use the pools. Compiled as C: it also shows that the header is. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mortise/pool.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

static int made, reset, destroyed;
static int make(void* block, void* context) {
  memset(block, *(int*)context, 40);
  return made++ < 0;
}
static void on_reset(void* block, void* context) { (void)block, (void)context, ++reset; }
static void on_destroy(void* block, void* context) { (void)block, (void)context, ++destroyed; }
static char fault[1024];
static void on_fault(const char* line) { strncpy(fault, line, sizeof fault - 1); }

static void* work(void* argument) {
  mo_pool* pool = argument;
  for (int i = 0; i < 20000; ++i) {
    int* held[3];
    for (int k = 0; k < 3; ++k) held[k] = mo_pool_acquire_for(pool, MO_POOL_FOR_EVER);
    for (int k = 0; k < 3; ++k) *held[k] = i;
    for (int k = 0; k < 3; ++k) {
      if (*held[k] != i) return pool;
      mo_pool_release(pool, held[k]);
    }
  }
  return NULL;
}

static int plain(void) {
  CHECK(!mo_pool_create(NULL));
  CHECK(!mo_pool_create(&(mo_pool_options){.size = 8}));
  CHECK(!mo_pool_create(&(mo_pool_options){.size = 8, .align = 3, .maximum = 1}));
  mo_pool* pool = mo_pool_create(&(mo_pool_options){.size = 100, .maximum = 20, .prefill = 5});
  CHECK(pool);
  mo_pool_statistics s = {.struct_bytes = sizeof s};
  mo_pool_statistics_of(pool, &s);
  CHECK(s.maximum == 20 && s.created == 5 && s.idle == 5 && s.in_use == 0);
  void* all[20];
  for (int i = 0; i < 20; ++i) {
    CHECK((all[i] = mo_pool_try_acquire(pool)));
    CHECK(mo_pool_owns(pool, all[i]) && mo_pool_at(pool, mo_pool_index_of(pool, all[i])) == all[i]);
  }
  CHECK(!mo_pool_try_acquire(pool) && !mo_pool_acquire_for(pool, 1000));
  CHECK(!mo_pool_acquire_for(pool, -1)); /* the time has gone by */
  CHECK(mo_pool_index_of(pool, &pool) == MO_POOL_NO_INDEX && mo_pool_index_of(pool, (char*)all[0] + 1) == MO_POOL_NO_INDEX);
  CHECK(!mo_pool_at(pool, 20) && !mo_pool_at(pool, MO_POOL_NO_INDEX) && mo_pool_at(pool, 19));
  mo_pool_release(pool, NULL);
  CHECK(!mo_pool_try_acquire(pool)); /* what was ignored is not there to be had */
  mo_pool_statistics_of(pool, &s);
  CHECK(s.in_use == 20 && s.failures == 4 && s.timeouts == 1);
  for (int i = 0; i < 20; ++i) mo_pool_release(pool, all[i]);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, work, pool) == 0);
  for (int i = 0; i < 4; ++i) {
    void* wrong;
    CHECK(pthread_join(threads[i], &wrong) == 0 && !wrong);
  }
  mo_pool_statistics_of(pool, &s);
  CHECK(s.in_use == 0 && s.idle == 20);
  CHECK(mo_pool_report_leaks(pool) == 0);
  mo_pool_destroy(pool);
  mo_pool_destroy(NULL);
  return 0;
}

static int hooks(void) {
  int fill = 7;
  mo_pool* pool = mo_pool_create(&(mo_pool_options){
      .size = 40, .maximum = 10, .make = make, .reset = on_reset, .destroy = on_destroy, .context = &fill});
  CHECK(pool);
  unsigned char* block = mo_pool_try_acquire(pool);
  CHECK(block && block[0] == 7 && block[39] == 7 && made == 1);
  block[0] = 9;
  mo_pool_release(pool, block);
  CHECK(reset == 1 && mo_pool_try_acquire(pool) == block && block[0] == 9 && made == 1);
  mo_pool_release(pool, block);
  CHECK(mo_pool_prefill(pool, 6) == 6 && made == 6);
  mo_pool_trim(pool, 2);
  CHECK(destroyed == 4);
  CHECK(mo_pool_prefill(pool, 6) == 6 && made == 10); /* again what the trim destroyed */
  mo_pool_destroy(pool);
  CHECK(destroyed == 10);
  return 0;
}

static int checked(void) {
  mo_pool* pool =
      mo_pool_create(&(mo_pool_options){.size = 40, .maximum = 10, .checked = 1, .name = "c", .on_fault = on_fault});
  CHECK(pool);
  void* block = mo_pool_try_acquire(pool);
  CHECK(mo_pool_report_leaks(pool) == 1);
  mo_pool_release(pool, block);
  mo_pool_release(pool, block);
  CHECK(strstr(fault, "mortise[pool c] fault=double_return"));
  mo_pool_release(pool, &pool);
  CHECK(strstr(fault, "fault=foreign_return"));
  CHECK(mo_pool_report_leaks(pool) == 0);
  mo_pool_destroy(pool);
  return 0;
}

int main(void) { return plain() || hooks() || checked(); }
