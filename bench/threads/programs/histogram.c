// histogram: counts of each colour value in a picture of three bytes a pixel. Reads a large file, shares almost nothing.
#include "input.h"

struct job {
  const unsigned char* pixels;
  size_t count;
  long red[256], green[256], blue[256];
};

static void* work(void* argument) {
  struct job* j = argument;
  for (size_t i = 0; i < j->count; ++i) {
    ++j->red[j->pixels[3 * i]];
    ++j->green[j->pixels[3 * i + 1]];
    ++j->blue[j->pixels[3 * i + 2]];
  }
  return NULL;
}

int main(int count, char** arguments) {
  const int threads = thread_count(count, arguments);
  const size_t pixels = (size_t)size_or(count, arguments, 133) * 1000000;
  const unsigned char* map = map_input("histogram", 3 * pixels, 88172645463325252ull);
  struct job* jobs = calloc((size_t)threads, sizeof *jobs);
  for (int i = 0; i < threads; ++i) {
    const size_t from = pixels * (size_t)i / (size_t)threads, to = pixels * ((size_t)i + 1) / (size_t)threads;
    jobs[i].pixels = map + 3 * from;
    jobs[i].count = to - from;
  }
  run_workers(threads, work, jobs, sizeof *jobs);
  uint64_t sum = 0;
  for (int c = 0; c < 256; ++c) {
    long red = 0, green = 0, blue = 0;
    for (int i = 0; i < threads; ++i) red += jobs[i].red[c], green += jobs[i].green[c], blue += jobs[i].blue[c];
    sum = sum * 31 + (uint64_t)(red + 3 * green + 7 * blue);
  }
  printf("%016llx\n", (unsigned long long)sum);
  free(jobs);
  return 0;
}
