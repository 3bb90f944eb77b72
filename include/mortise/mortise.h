/* Heaps for C: memory that threads share and that is given back all at once. Link with -lmortise.
 *
 *   mo_heap* heap = mo_heap_create(NULL);
 *   struct node* n = mo_heap_alloc(heap, sizeof *n);       from any thread
 *   mo_heap_free(heap, n);                                 from any thread, also after the one that made it has ended
 *   mo_heap_destroy(heap);                                 everything that is left, without looking at a block: O(spans)
 *
 * The program's malloc stays what it is. Blocks are aligned to 16. Every call is thread-safe but for mo_heap_destroy, which must be
 * the last one on its heap. Calls that give memory return NULL and set errno to ENOMEM when there is none, or when the heap's
 * limit is met. A hit in the cache of the core is wait-free; a miss takes a lock.
 * Freeing what lies outside the heap's blocks, and using a heap that was destroyed, is reported and ends the program, as far as
 * it is noticed; a small block freed twice is not. docs/heaps.md is the guide. */
#ifndef MORTISE_H
#define MORTISE_H

#include <stddef.h>
#include <stdint.h>

#include "mortise/tsan.h"

#ifdef __cplusplus
#define MO_NOEXCEPT noexcept
extern "C" {
#else
#define MO_NOEXCEPT
#endif

typedef struct mo_heap mo_heap;

/* Zero in any field means the usual. */
typedef struct mo_heap_options {
  const char* name;  /* in statistics; copied, cut to 31 characters */
  size_t limit;      /* bytes that its blocks may take from the system, at least MO_HEAP_LIMIT_MIN; 0: none */
  mo_heap* parent;   /* destroyed with it, and counted towards its limit as well */
  void* memory;      /* memory of the program's to live in, which must outlive the heap; then the fields above but the */
  size_t bytes;      /* name are not used, and every call takes a lock. At least MO_HEAP_BYTES_MIN. */
} mo_heap_options;

#define MO_HEAP_BYTES_MIN 32768
#define MO_HEAP_LIMIT_MIN 65536 /* what the first block of a size needs for a moment */

typedef struct mo_heap_stats {
  size_t mapped_bytes;      /* address space in use by the heap */
  size_t live_bytes;        /* in blocks that the program holds, rounded up to their size class */
  size_t large_bytes;       /* part of it in blocks of more than 256 KiB */
  size_t large_blocks;
  size_t cached_bytes;      /* in free blocks, of caches and of slabs */
  size_t bookkeeping_bytes;
  size_t limit_bytes;       /* 0: none */
  size_t refused;           /* how often the limit refused memory */
} mo_heap_stats;

/* A new heap, or NULL with errno ENOMEM, or EINVAL where the options make no sense: less than the least, a parent in memory of the
 * program's or destroyed, memory in which another heap still lives. `options` may be NULL. Microseconds, a few pages of memory. */
mo_heap* mo_heap_create(const mo_heap_options* options) MO_NOEXCEPT;

/* Gives back all memory of the heap, and of the heaps within it. No block of it may be used, and no other thread may be in a
 * call on it. NULL is ignored. O(spans): 1 for 64 KiB of small blocks or for a large block. */
void mo_heap_destroy(mo_heap* heap) MO_NOEXCEPT;

void* mo_heap_alloc(mo_heap* heap, size_t size) MO_NOEXCEPT;
void* mo_heap_alloc_zeroed(mo_heap* heap, size_t count, size_t size) MO_NOEXCEPT;
void* mo_heap_alloc_aligned(mo_heap* heap, size_t align, size_t size) MO_NOEXCEPT;  /* align: a power of two, else EINVAL */
/* As realloc, but a size of 0 gives a small block. On failure the old block stays as it is; to less it never fails. */
void* mo_heap_realloc(mo_heap* heap, void* block, size_t size) MO_NOEXCEPT;
void mo_heap_free(mo_heap* heap, void* block) MO_NOEXCEPT; /* NULL is ignored */

/* For blocks whose heap is not at hand; not for heaps in memory of the program's. O(1). */
void mo_free(void* block) MO_NOEXCEPT;
mo_heap* mo_heap_of(const void* block) MO_NOEXCEPT;     /* NULL when it is no block of any heap */
size_t mo_heap_usable_size(mo_heap* heap, const void* block) MO_NOEXCEPT;

/* Sets the limit; 0: none. Blocks that are out stay out. */
void mo_heap_set_limit(mo_heap* heap, size_t bytes) MO_NOEXCEPT;
/* Empties the caches of all cores and gives free spans back to the store. Returns the bytes. */
size_t mo_heap_trim(mo_heap* heap) MO_NOEXCEPT;

void mo_heap_get_stats(mo_heap* heap, mo_heap_stats* stats) MO_NOEXCEPT;
/* The same by size class and core, as JSON (schema mortise.heap/1). Returns the length of the whole text, as snprintf. */
size_t mo_heap_stats_json(mo_heap* heap, char* out, size_t capacity) MO_NOEXCEPT;
/* What the program's malloc holds, as JSON (schema mortise.stats/1), when it runs on a mortise allocator; else 0. */
size_t mo_stats_json(char* out, size_t capacity) MO_NOEXCEPT;

#ifdef MO_TELLS_TSAN
#include "mortise/tsan_heaps.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
