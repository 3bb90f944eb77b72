/* Whether ThreadSanitizer watches, and what it is told. It does not see what the code of a library does unless that was compiled for
 * it, and would call each block that goes from thread to thread by way of it a race. So in programs that it watches mortise.h and
 * pool.h say, around each call: who gets a block comes after who gave it back. Without -fsanitize=thread there is nothing here. */
#ifndef MORTISE_TSAN_H
#define MORTISE_TSAN_H

#if defined(__SANITIZE_THREAD__)
#define MO_TELLS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MO_TELLS_TSAN 1
#endif
#endif
#ifdef MORTISE_INSIDE /* the library itself */
#undef MO_TELLS_TSAN
#endif

#ifdef MO_TELLS_TSAN
#ifdef __cplusplus
extern "C" {
#endif
void __tsan_acquire(void* word);
void __tsan_release(void* word);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
#ifdef __cplusplus
}
#endif
#endif

#endif
