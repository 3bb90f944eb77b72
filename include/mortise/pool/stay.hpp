// A plug-in that has pools stays when it is closed: the kernel reads the descriptor of the sequence that a thread ran last, and ends a
// thread whose descriptor is gone. Libraries that are linked to stay (-z nodelete) need none of this; of those that are made of these
// headers nobody might have thought of it. The descriptors are where the calls are inlined, whoever made the pool: so it is done as an
// object is loaded, and not as a pool is made.
//
// Where glibc is older there are no restartable sequences, and the loader's functions are in a library that may not be linked.
#pragma once

#include "mortise/os/rseq.hpp"

#if defined(__GLIBC__) && defined(__x86_64__) && !defined(MORTISE_SANITIZED) && !defined(MORTISE_INSIDE)
#if __GLIBC_PREREQ(2, 35)
#include <dlfcn.h>
#include <link.h>

namespace mortise::pools {

/// Tells the loader never to unload what this is compiled into. Hidden, as each shared object has its own.
[[gnu::visibility("hidden")]] MORTISE_COLD inline bool stay_loaded() noexcept {
  Dl_info place;
  link_map* object = nullptr;
  const auto here = reinterpret_cast<void*>(&stay_loaded);
  if (!::dladdr1(here, &place, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) || !object || !*object->l_name) return false;
  using Open = void* (*)(const char*, int);
  const auto open = reinterpret_cast<Open>(::dlsym(RTLD_DEFAULT, "dlopen"));  // by name: a static program would be warned of it
  return open && open(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
[[gnu::visibility("hidden")]] inline const bool stays_loaded = stay_loaded();

}  // namespace mortise::pools
#endif
#endif
