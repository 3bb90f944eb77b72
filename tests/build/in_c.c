/* Two static libraries of compositions in one program, beside the program's own malloc, used by four threads. */
#include <libarena.h>
#include <libmine.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, BLOCKS = 200, ROUNDS = 50 };

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

struct heap {
  void* (*get)(size_t);
  void* (*more)(void*, size_t);
  void (*put)(void*);
  size_t (*usable)(void*);
};
static const struct heap heaps[] = {{mine_malloc, mine_realloc, mine_free, mine_usable_size},
                                    {arena_malloc, arena_realloc, arena_free, arena_usable_size}};

static void* work(void* number) {
  const unsigned char mark = (unsigned char)(uintptr_t)number;
  for (int round = 0; round < ROUNDS; ++round) {
    const struct heap* h = &heaps[round % 2];
    unsigned char* block[BLOCKS];
    for (int i = 0; i < BLOCKS; ++i) {
      block[i] = h->get((size_t)i);
      check(block[i] != NULL && (uintptr_t)block[i] % 16 == 0 && h->usable(block[i]) >= (size_t)i, "a block of the size");
      memset(block[i], mark, (size_t)i);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
      block[i] = h->more(block[i], (size_t)i * 2 + 1);
      check(block[i] != NULL, "a larger block");
    }
    for (int i = 0; i < BLOCKS; ++i) {
      for (int at = 0; at < i; ++at) check(block[i][at] == mark, "nobody else wrote");
      h->put(block[i]);
    }
  }
  return NULL;
}

int main(int count, char** words) {
  if (count > 1 && strcmp(words[1], "crime") == 0) {
    int own = 0;
    mine_free(&own);
    return 0;
  }
  const size_t before = arena_live_bytes();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) check(pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)(i + 1)) == 0, "a thread");
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  check(arena_live_bytes() == before, "every block of the arena came back");
  check(mine_live_bytes() == 0, "every other block came back");

  check(arena_malloc(2u << 20) == NULL, "an arena of a mebibyte has no two");
  check(mine_calloc(SIZE_MAX / 2, 4) == NULL, "no block beyond the address space");
  unsigned char* zeroed = mine_calloc(100, 10);
  for (int i = 0; i < 1000; ++i) check(zeroed[i] == 0, "calloc is zero");
  void* aligned = arena_aligned_alloc(4096, 100);
  check((uintptr_t)aligned % 4096 == 0 && aligned != NULL, "a block on a page");
  check(arena_aligned_alloc(24, 8) == NULL, "no alignment that is no power of two");
  arena_free(aligned);
  mine_free(mine_realloc(zeroed, 5000));
  unsigned char* large = mine_malloc(1u << 20);
  memset(large, 7, 1u << 20);
  large = mine_realloc(large, 600000);
  check(mine_usable_size(large) < 700000 && large[599999] == 7, "a large block gives back what it needs no more");
  mine_free(large);
  void* part = arena_realloc(arena_malloc(500000), 300000);
  check(part != NULL && arena_usable_size(part) < 310000, "so does one of an arena");
  arena_free(part);
  mine_free(NULL);
  check(mine_realloc(mine_realloc(NULL, 8), 0) == NULL, "realloc as malloc and as free");
  mine_trim();
  check(arena_mapped_bytes() <= 1u << 20 && mine_mapped_bytes() > 0, "what was taken from the sources");
  char* own = malloc(10); /* the program's malloc is another heap */
  free(own);
  puts("two heaps, nothing lost");
  return 0;
}
