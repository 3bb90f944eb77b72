// What an object brings with it when it is opened, often seen by nobody else: a plug-in, and the C++ library that it is linked with.
#pragma once

#include <dlfcn.h>

namespace mortise::abi {

/// Whether two addresses are of one object.
inline bool is_of(const void* address, const void* other) noexcept {
  Dl_info its, others;
  return ::dladdr(address, &its) && ::dladdr(other, &others) && its.dli_fbase == others.dli_fbase;
}

/// A symbol of what was loaded together with whoever holds this address. Null when there is none. By the loader's own functions: ours, in
/// front of those, do more.
inline void* find_beside(const void* address, const char* name, void* (*open)(const char*, int), int (*close)(void*)) noexcept {
  Dl_info place;
  void* const object = open && ::dladdr(address, &place) ? open(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  if (!object) return nullptr;
  void* const found = ::dlsym(object, name);
  close(object);
  return found;
}

}  // namespace mortise::abi
