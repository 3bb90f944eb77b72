/* Object pools for C: blocks of one size, shared by any number of threads. Link with -lmortise_pool.
 *
 *   mo_pool* pool = mo_pool_create(&(mo_pool_options){.size = sizeof(struct message), .maximum = 4096});
 *   struct message* m = mo_pool_try_acquire(pool);      a few nanoseconds, no lock; NULL when all 4096 are in use
 *   mo_pool_release(pool, m);                           from any thread
 *
 * No call throws, sets errno, or allocates memory beyond what mo_pool_create reserved. docs/pools.md names the progress
 * guarantee of each call and says what happens at fork and when a thread ends. */
#ifndef MORTISE_POOL_H
#define MORTISE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "mortise/tsan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mo_pool mo_pool;

/* Zero in any field but size and maximum means the usual. */
typedef struct mo_pool_options {
  size_t size;      /* bytes of a block */
  size_t align;     /* a power of two up to 65536; 0: 16 */
  uint32_t maximum; /* blocks that exist at a time, at most */
  uint32_t prefill; /* blocks made at once; the others when they are needed */
  int packed;       /* not 0: blocks may share cache lines */
  int checked;      /* not 0: watch for double and foreign returns, and know who has what */
  const char* name; /* in reports; must live as long as the pool */
  /* Hooks; each may be NULL. With a `make` or `destroy`, blocks keep their contents while idle: make runs when a block is
   * first used and may fail with a non-zero value, reset at each release, destroy when the pool is trimmed or ends. */
  int (*make)(void* block, void* context);
  void (*reset)(void* block, void* context);
  void (*destroy)(void* block, void* context);
  void* context;
  /* Checked pools: called with the line instead of printing it and aborting. */
  void (*on_fault)(const char* line);
} mo_pool_options;

#define MO_POOL_WAIT_BUCKETS 24

/* `struct_bytes` is set by the caller to sizeof(mo_pool_statistics); no more is written. */
typedef struct mo_pool_statistics {
  size_t struct_bytes;
  uint32_t maximum, created, in_use, idle, bare, high_water, capacity_slack, reserved;
  uint64_t refills, spills, failures, steals, contention, trims;
  uint64_t waits, timeouts, wait_ns, wait_ns_max;
  uint64_t wait_histogram[MO_POOL_WAIT_BUCKETS]; /* [0] below 1 microsecond, [i] below 2^i, the last: longer */
} mo_pool_statistics;

#define MO_POOL_FOR_EVER INT64_MAX
#define MO_POOL_NO_INDEX UINT32_MAX

/* NULL when the options make no sense or the system refuses the memory. */
mo_pool* mo_pool_create(const mo_pool_options* options);
/* Runs `destroy` on idle blocks. None may be in use (a checked pool prints those that are), no other thread in a call. NULL is fine. */
void mo_pool_destroy(mo_pool* pool);

void* mo_pool_try_acquire(mo_pool* pool);
/* Waits up to `timeout_ns`, or MO_POOL_FOR_EVER; not at all when a deadline has gone by, which makes it negative. */
void* mo_pool_acquire_for(mo_pool* pool, int64_t timeout_ns);
void mo_pool_release(mo_pool* pool, void* block); /* NULL is ignored */

/* Blocks by index, below `maximum`, fixed for the life of the pool. Of what is no block of it: MO_POOL_NO_INDEX, and NULL. */
uint32_t mo_pool_index_of(const mo_pool* pool, const void* block);
void* mo_pool_at(const mo_pool* pool, uint32_t index);
/* Not 0 when `block` is the start of one of this pool's blocks. */
int mo_pool_owns(const mo_pool* pool, const void* block);

/* Makes blocks until `n` exist; how many exist. */
uint32_t mo_pool_prefill(mo_pool* pool, uint32_t n);
/* Destroys idle blocks but for `keep` of them, gives their pages back; the bytes. */
size_t mo_pool_trim(mo_pool* pool, uint32_t keep);

void mo_pool_statistics_of(mo_pool* pool, mo_pool_statistics* statistics);
/* Checked pools: a line on standard error for each block that is out; how many. Others: 0. */
uint32_t mo_pool_report_leaks(mo_pool* pool);

#ifdef MO_TELLS_TSAN
#include "mortise/tsan_pools.h"
#endif

#ifdef __cplusplus
}
#endif
#endif
