// Pointers, sizes and alignments that are not what the allocator gave.
#include <sys/mman.h>

#include <new>

#include "crimes.hpp"

namespace crimes {
namespace {

alignas(64) char global[4096];

Harm free_at(char* p) {
  announce(p);
  release(p);
  return Harm::done;
}
template <std::size_t kSize, long kOffset> Harm free_inside() { return free_at(block(kSize) + kOffset); }
Harm free_on_the_stack() {
  alignas(64) char local[256] = {};
  return free_at(hidden(local) + 64);
}
Harm free_global() { return free_at(global + 64); }
Harm free_mapped() {
  auto* const p = static_cast<char*>(mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return free_at(p + 4096);
}
Harm free_wild() { return free_at(reinterpret_cast<char*>(hidden(uintptr_t{0x4141414141410}))); }
Harm free_never_given() { return free_at(block(64) + (1 << 14)); }
Harm realloc_inside() {
  char* const p = block(200) + 16;
  announce(p);
  release(realloc(hidden(p), 1000));
  return Harm::done;
}
Harm realloc_inside_large() {
  char* const p = block(1 << 20) + 64;
  announce(p);
  release(realloc(hidden(p), 100));
  return Harm::done;
}
Harm realloc_on_the_stack() {
  alignas(64) char local[256] = {};
  announce(local + 64);
  release(realloc(hidden(local) + 64, 1000));
  return Harm::done;
}
Harm usable_size_inside() {
  char* const p = block(200) + 32;
  announce(p);
  fprintf(stdout, "%zu\n", malloc_usable_size(hidden(p)));
  return Harm::done;
}
template <std::size_t kMade, std::size_t kDeleted> Harm delete_with_another_size() {
  void* const p = ::operator new(hidden(kMade));
  announce(p);
  ::operator delete(hidden(p), hidden(kDeleted));
  return Harm::done;
}
Harm delete_with_less_alignment() {
  void* const p = ::operator new(hidden(200), std::align_val_t{16});
  announce(p);
  ::operator delete(hidden(p), hidden(std::size_t{200}), std::align_val_t{4096});
  return Harm::done;
}

}  // namespace

const Crime kArgument[] = {
    {"free_inside", "argument", free_inside<100, 16>},
    {"free_inside_misaligned", "argument", free_inside<100, 8>},
    {"free_inside_odd", "argument", free_inside<100, 1>},
    {"free_inside_medium", "argument", free_inside<40000, 4096>},
    {"free_inside_large", "argument", free_inside<(1 << 20), 4096>},
    {"free_inside_large_far", "argument", free_inside<(1 << 20), (256 << 10)>},
    {"free_before_the_start", "argument", free_inside<100, -16>},
    {"free_on_the_stack", "argument", free_on_the_stack},
    {"free_global", "argument", free_global},
    {"free_mapped", "argument", free_mapped},
    {"free_wild", "argument", free_wild},
    {"free_never_given", "argument", free_never_given},
    {"realloc_inside", "argument", realloc_inside},
    {"realloc_inside_large", "argument", realloc_inside_large},
    {"realloc_on_the_stack", "argument", realloc_on_the_stack},
    {"usable_size_inside", "argument", usable_size_inside},
    {"sized_delete_too_small", "argument", delete_with_another_size<200, 24>},
    {"sized_delete_too_large", "argument", delete_with_another_size<24, 200>},
    {"sized_delete_off_by_eight", "argument", delete_with_another_size<104, 96>},
    {"aligned_delete_mismatch", "argument", delete_with_less_alignment},
};
const std::size_t kArgumentCount = sizeof kArgument / sizeof *kArgument;

}  // namespace crimes
