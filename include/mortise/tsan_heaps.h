/* The calls of mortise.h, which includes this, as a program makes them that ThreadSanitizer watches. A heap's blocks lie elsewhere each
 * time, and its memory goes to other heaps. So each release comes before every later allocation of any heap, and a race between two
 * threads that have one of each in between goes unseen. What the library copies and zeroes is its own business, and that of its locks. */
#ifndef MORTISE_TSAN_HEAPS_H
#define MORTISE_TSAN_HEAPS_H

static inline void mo_told_inside(void) {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void mo_told_outside(void) {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
/* What all heaps meet at: any address of the library's. */
static inline void* mo_told_all(void) { return (void*)(uintptr_t)&mo_free; }
static inline void mo_told_taken(void) { mo_told_inside(), __tsan_release(mo_told_all()); }
static inline void* mo_told_given(void* block) { return mo_told_outside(), __tsan_acquire(mo_told_all()), block; }

static inline mo_heap* mo_told_heap_create(const mo_heap_options* options) {
  mo_told_inside();
  mo_heap* const heap = mo_heap_create(options);
  return mo_told_outside(), heap;
}
static inline void mo_told_heap_destroy(mo_heap* heap) { mo_told_taken(), mo_heap_destroy(heap), mo_told_outside(); }
static inline void* mo_told_heap_alloc(mo_heap* heap, size_t size) { return mo_told_inside(), mo_told_given(mo_heap_alloc(heap, size)); }
static inline void* mo_told_heap_alloc_zeroed(mo_heap* heap, size_t count, size_t size) {
  return mo_told_inside(), mo_told_given(mo_heap_alloc_zeroed(heap, count, size));
}
static inline void* mo_told_heap_alloc_aligned(mo_heap* heap, size_t align, size_t size) {
  return mo_told_inside(), mo_told_given(mo_heap_alloc_aligned(heap, align, size));
}
static inline void* mo_told_heap_realloc(mo_heap* heap, void* block, size_t size) {
  return mo_told_taken(), mo_told_given(mo_heap_realloc(heap, block, size));
}
static inline void mo_told_heap_free(mo_heap* heap, void* block) { mo_told_taken(), mo_heap_free(heap, block), mo_told_outside(); }
static inline void mo_told_free(void* block) { mo_told_taken(), mo_free(block), mo_told_outside(); }

#define mo_heap_create mo_told_heap_create
#define mo_heap_destroy mo_told_heap_destroy
#define mo_heap_alloc mo_told_heap_alloc
#define mo_heap_alloc_zeroed mo_told_heap_alloc_zeroed
#define mo_heap_alloc_aligned mo_told_heap_alloc_aligned
#define mo_heap_realloc mo_told_heap_realloc
#define mo_heap_free mo_told_heap_free
#define mo_free mo_told_free

#endif
