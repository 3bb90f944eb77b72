// Character sets that libc loads libraries for, by several threads at once, and closes when they are not used any more.
#include <iconv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const sets[] = {"UTF-16LE", "ISO-8859-15", "CP1252", "KOI8-R", "EUC-JP", "SHIFT_JIS", "BIG5", "GB18030", "CP437", "UTF-7"};
enum { kSets = sizeof sets / sizeof sets[0], kThreads = 5, kTimes = 100 };

static size_t convert(const char* from, const char* to, char* in, size_t bytes, char* out, size_t room) {
  const iconv_t way = iconv_open(to, from);
  if (way == (iconv_t)-1) return 0;
  char* const begin = out;
  iconv(way, &in, &bytes, &out, &room);
  iconv(way, NULL, NULL, &out, &room);
  iconv_close(way);
  return out - begin;
}
static void* work(void* seed) {
  unsigned state = (long)seed;
  long good = 0;
  for (int i = 0; i < kTimes; ++i) {
    const char* const set = sets[rand_r(&state) % kSets];
    char text[] = "hello", there[64], back[64] = "";
    convert(set, "UTF-8", there, convert("UTF-8", set, text, 5, there, sizeof there), back, sizeof back - 1);
    good += !strcmp(back, text);
  }
  printf("%ld of %d\n", good, kTimes);
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  work((void*)kThreads);
  return 0;
}
