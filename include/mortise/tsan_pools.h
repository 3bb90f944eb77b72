/* The calls of pool.h, which includes this, as a program makes them that ThreadSanitizer watches: who acquires a block comes after who
 * released it. Hooks run within the calls, and are watched as the rest of the program is. */
#ifndef MORTISE_TSAN_POOLS_H
#define MORTISE_TSAN_POOLS_H

static inline void* mo_told_acquired(void* block) {
  if (block) __tsan_acquire(block);
  return block;
}
static inline void* mo_told_pool_try_acquire(mo_pool* pool) { return mo_told_acquired(mo_pool_try_acquire(pool)); }
static inline void* mo_told_pool_acquire_for(mo_pool* pool, int64_t timeout_ns) {
  return mo_told_acquired(mo_pool_acquire_for(pool, timeout_ns));
}
static inline void mo_told_pool_release(mo_pool* pool, void* block) {
  if (block) __tsan_release(block);
  mo_pool_release(pool, block);
}

#define mo_pool_try_acquire mo_told_pool_try_acquire
#define mo_pool_acquire_for mo_told_pool_acquire_for
#define mo_pool_release mo_told_pool_release

#endif
