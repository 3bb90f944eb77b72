// input.h: a file of random bytes, made once, mapped private and writable as the originals of these programs do.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workers.h"

/// Maps the file `name` in the folder of inputs ($BENCH_INPUTS, or /tmp), which is made first if it has not `bytes` bytes.
static inline unsigned char* map_input(const char* name, size_t bytes, uint64_t seed) {
  char path[512];
  const char* folder = getenv("BENCH_INPUTS");
  snprintf(path, sizeof path, "%s/%s-%zu", folder ? folder : "/tmp", name, bytes);
  struct stat status;
  if (stat(path, &status) != 0 || (size_t)status.st_size != bytes) {
    FILE* f = fopen(path, "wb");
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
      const uint64_t r = next_random(&seed);
      fwrite(&r, 1, bytes - i < sizeof r ? bytes - i : sizeof r, f);
    }
    fclose(f);
  }
  const int fd = open(path, O_RDONLY);
  unsigned char* map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  close(fd);
  if (map == MAP_FAILED) {
    perror(path);
    exit(1);
  }
  return map;
}
