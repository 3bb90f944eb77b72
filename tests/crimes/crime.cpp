// Commits one crime against the heap: crime NAME. Prints the pointer that a report must name, then does it; ends with 0
// when nobody noticed. Crimes that are seen when a block leaves the caches are followed by malloc_trim, which empties
// them.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <thread>

namespace {

/// The allocator's blocks are abused on purpose: the compiler is not to know.
template <class T> T hidden(T value) {
  asm volatile("" : "+r"(value));
  return value;
}
char* block(std::size_t n) { return static_cast<char*>(malloc(hidden(n))); }
void announce(const void* p) {
  printf("%#lx\n", reinterpret_cast<unsigned long>(p));
  fflush(stdout);
}
void release(char* p) { free(hidden(p)); }

int commit(const std::string& crime) {
  if (crime == "double_free") {
    char* p = block(100);
    announce(p);
    release(p);
    release(p);
  } else if (crime == "double_free_by_two_threads") {
    char* p = block(1000);
    announce(p);
    std::thread([p] { release(p); }).join();
    std::thread([p] { release(p); }).join();
  } else if (crime == "double_free_later") {
    char* p = block(100);
    announce(p);
    release(p);
    malloc_trim(0);
    release(p);
  } else if (crime == "free_inside") {
    char* p = block(100) + 16;
    announce(p);
    release(p);
  } else if (crime == "free_inside_large") {
    char* p = block(1 << 20) + 4096;
    announce(p);
    release(p);
  } else if (crime == "free_inside_large_far") {
    char* p = block(1 << 20) + (256 << 10);
    announce(p);
    release(p);
  } else if (crime == "double_free_large") {
    char* p = block(1 << 20);
    announce(p);
    release(p);
    release(p);
  } else if (crime == "realloc_inside_large") {
    char* p = block(1 << 20) + 64;
    announce(p);
    free(realloc(hidden(p), 100));
  } else if (crime == "usable_size_of_freed_large") {
    char* p = block(1 << 20);
    announce(p);
    release(p);
    printf("%zu\n", malloc_usable_size(hidden(p)));
  } else {
    return 2;
  }
  malloc_trim(0);
  return 0;
}

}  // namespace

int main(int, char** argv) { return commit(argv[1] ? argv[1] : ""); }
