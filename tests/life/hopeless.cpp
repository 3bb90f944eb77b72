// A request that no machine could serve takes nothing away: what the heap keeps ready is as it was.
#include <malloc.h>

#include <initializer_list>

#include "life.hpp"

int main() {
  constexpr unsigned kBlocks = 400;
  void* held[kBlocks];
  for (const std::size_t bytes : {std::size_t{20'000}, std::size_t{100'000}, std::size_t{400'000}}) {
    for (void*& p : held) EXPECT((p = malloc(bytes)) && memset(p, 1, bytes));
    for (void* p : held) free(p);
  }
  const std::size_t before = life::resident();
  for (const std::size_t bytes : {std::size_t{1} << 43, std::size_t{1} << 50, std::size_t{PTRDIFF_MAX}}) {
    errno = 0;
    EXPECT(!malloc(bytes) && errno == ENOMEM);
    EXPECT(!calloc(1, bytes) && !memalign(64, bytes) && !memalign(std::size_t{1} << 50, 100));
    void* const p = malloc(100);
    EXPECT(p && !realloc(p, bytes));
    free(p);
  }
  EXPECT(life::resident() + life::kMiB >= before);
}
