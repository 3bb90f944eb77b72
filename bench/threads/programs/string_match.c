// string_match: looks for four keys, of which some are planted, among words of a file, comparing a digest of each word.
#include "input.h"

enum { kWord = 16, kKeys = 4 };
struct job {
  const unsigned char* words;
  size_t count;
  long found[kKeys];
};
static uint64_t keys[kKeys];

static uint64_t digest(const unsigned char* word) {
  uint64_t h = 1469598103934665603ull;
  for (int i = 0; i < kWord; ++i) h = (h ^ word[i]) * 1099511628211ull;
  return h ^ h >> 29;
}

static void* work(void* argument) {
  struct job* j = argument;
  for (size_t i = 0; i < j->count; ++i) {
    const uint64_t h = digest(j->words + i * kWord);
    for (int k = 0; k < kKeys; ++k) j->found[k] += h == keys[k];
  }
  return NULL;
}

int main(int count, char** arguments) {
  const int threads = thread_count(count, arguments);
  const size_t bytes = (size_t)size_or(count, arguments, 40) * 1000000 + 16, words = bytes / kWord;
  const unsigned char* map = map_input("words", bytes, 1181783497276652981ull);
  for (int k = 0; k < kKeys; ++k) keys[k] = digest(map + (words / 5 * (size_t)k + 17) * kWord);
  struct job* jobs = calloc((size_t)threads, sizeof *jobs);
  for (int i = 0; i < threads; ++i) {
    const size_t from = words * (size_t)i / (size_t)threads, to = words * ((size_t)i + 1) / (size_t)threads;
    jobs[i].words = map + kWord * from;
    jobs[i].count = to - from;
  }
  run_workers(threads, work, jobs, sizeof *jobs);
  for (int k = 0; k < kKeys; ++k) {
    long found = 0;
    for (int i = 0; i < threads; ++i) found += jobs[i].found[k];
    printf("key %d: %ld\n", k, found);
  }
  free(jobs);
  return 0;
}
