// Where an object stands in the order in which names are searched for: the program first, then what is preloaded and linked, then what was
// opened by dlopen. To look things up waits for whoever loads a library: only before the program begins, or while we are being loaded.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace mortise::abi {

inline constexpr int kNowhere = -1;

struct Search {
  std::uintptr_t address;
  int at = 0, found = kNowhere;
};

inline int look_into(dl_phdr_info* object, std::size_t, void* search) noexcept {
  auto& s = *static_cast<Search*>(search);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && s.address - (object->dlpi_addr + part.p_vaddr) < part.p_memsz) s.found = s.at;
  }
  ++s.at;
  return s.found != kNowhere;
}

/// The place in the order of search of the object that holds an address; kNowhere for null, and for what no object holds.
inline int place_of(const void* address) noexcept {
  Search s{reinterpret_cast<std::uintptr_t>(address)};
  if (address) ::dl_iterate_phdr(&look_into, &s);
  return s.found;
}

#ifdef __GLIBC__  // a name that nobody else has: wrappers that are preloaded in front define __libc_start_main
inline constexpr const char* kOfLibc = "gnu_get_libc_version";
#else
inline constexpr const char* kOfLibc = "__libc_start_main";
#endif

/// Whether the object at this place comes behind libc: it was opened by dlopen, and serves nobody by name.
inline bool is_behind_libc(int place) noexcept {
  const int libc = place_of(::dlsym(RTLD_DEFAULT, kOfLibc));
  return libc != kNowhere && place > libc;
}

}  // namespace mortise::abi
