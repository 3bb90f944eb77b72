/* If this fails, who looks for races in a program with ThreadSanitizer cannot use heaps or pools in it: there are none, or each block that
 * goes from thread to thread is called a race. */
#include <pthread.h>
#include <stdio.h>

#include "mortise/mortise.h"
#include "mortise/pool.h"

static mo_pool* pool;
static mo_heap* heap;

static void use(long* p, int i) {
  if (p) p[0] = i, p[7] += 1;
}

static void* work(void* result) {
  for (int i = 0; i < 2000; ++i) {
    long* const tried = mo_pool_try_acquire(pool);
    use(tried, i);
    mo_pool_release(pool, tried);
    long* const waited = mo_pool_acquire_for(pool, 1000);
    use(waited, i);
    mo_pool_release(pool, waited);
    long* p = mo_heap_alloc(heap, 64);
    use(p, i);
    p = mo_heap_realloc(heap, p, 100 + 1000 * (i % 9));
    use(p, i);
    mo_free(p);
    use(p = mo_heap_alloc_zeroed(heap, 1, 64), i);
    mo_heap_free(heap, p);
    use(p = mo_heap_alloc_aligned(heap, 256, 300000), i);
    mo_heap_free(heap, p);
    mo_heap* const own = mo_heap_create(NULL);
    if (!own || !p) return NULL;
    use(mo_heap_alloc(own, 64), i);
    mo_heap_destroy(own);
  }
  return result;
}

int main(void) {
  pool = mo_pool_create(&(mo_pool_options){.size = 64, .maximum = 3});
  heap = mo_heap_create(NULL);
  if (!pool || !heap) return fprintf(stderr, "no %s\n", pool ? "heap" : "pool"), 1;
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    if (pthread_create(&threads[i], NULL, work, &heap)) return 2;
  void* done = &heap;
  for (int i = 0; i < 4 && done; ++i) pthread_join(threads[i], &done);
  mo_heap_destroy(heap);
  mo_pool_destroy(pool);
  return done ? 0 : 3;
}
