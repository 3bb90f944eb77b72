// callers.cpp: the place of a library is that of its segments.
#include "callers.hpp"

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <link.h>

namespace mortise::isolate {
namespace {

struct Place {
  std::uintptr_t low, high;
};

constinit Place places[2]{};

struct Search {
  const void* inside;
  Place found{};
};

int look(dl_phdr_info* info, std::size_t, void* search) {
  auto& s = *static_cast<Search*>(search);
  const auto inside = reinterpret_cast<std::uintptr_t>(s.inside);
  Place place{~0ul, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t low = info->dlpi_addr + segment.p_vaddr, high = low + segment.p_memsz;
    if (low < place.low) place.low = low;
    if (high > place.high) place.high = high;
  }
  const bool is_program = info->dlpi_name[0] == '\0';  // its own malloc among other code
  if (inside < place.low || inside >= place.high || is_program) return 0;
  s.found = place;
  return 1;
}

Place place_of(const void* inside) noexcept {
  Search s{inside};
  dl_iterate_phdr(&look, &s);
  return s.found;
}

}  // namespace

void find_allocator() noexcept {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  places[0] = place_of(libc ? dlsym(libc, "mmap") : nullptr);
  places[1] = place_of(dlsym(RTLD_DEFAULT, "malloc"));
}

bool is_allocator(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Place& p : places)
    if (p.low <= at && at < p.high) return true;
  return false;
}

}  // namespace mortise::isolate
