// Looking up what comes next, and the dynamic loader's front door.
//
// dlopen and dlmopen are passed on with RTLD_DEEPBIND cleared. A library opened with that flag binds to libc's free and
// would be handed our blocks; without it, it shares the malloc that the rest of the program uses. The call is passed on
// by a jump, so that the loader still sees the program as its caller (it resolves $ORIGIN and RUNPATH by it).
#include "abi/next.hpp"

#include <dlfcn.h>

#include "abi/affinity.hpp"
#include "mortise/core/inline.hpp"

namespace mortise::abi {
namespace {

/// One function that comes after ours, looked up on first use. Racing look-ups find the same address.
template <class F> class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}
  F* get() noexcept {
    F* f = __atomic_load_n(&found_, __ATOMIC_RELAXED);
    return f ? f : look_up();
  }

 private:
  MORTISE_COLD F* look_up() noexcept {
    F* f = reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name_));
    __atomic_store_n(&found_, f, __ATOMIC_RELAXED);
    return f;
  }
  const char* name_;
  F* found_ = nullptr;
};

constinit Next<void(void*)> free_after{"free"};
constinit Next<void*(void*, std::size_t)> realloc_after{"realloc"};
constinit Next<std::size_t(void*)> usable_size_after{"malloc_usable_size"};
constinit Next<void*(const char*, int)> dlopen_after{"dlopen"};
constinit Next<void*(long, const char*, int)> dlmopen_after{"dlmopen"};
constinit Next<int(void*)> dlclose_after{"dlclose"};

}  // namespace

void next_free(void* p) noexcept {
  if (auto* f = free_after.get()) f(p);
}
void* next_realloc(void* p, std::size_t size) noexcept {
  auto* f = realloc_after.get();
  return f ? f(p, size) : nullptr;
}
std::size_t next_usable_size(void* p) noexcept {
  auto* f = usable_size_after.get();
  return f ? f(p) : 0;
}

}  // namespace mortise::abi

using namespace mortise::abi;

extern "C" {
MORTISE_EXPORT void* dlopen(const char* file, int mode) noexcept {
  return dlopen_after.get()(file, mode & ~RTLD_DEEPBIND);
}
MORTISE_EXPORT void* dlmopen(long ns, const char* file, int mode) noexcept {
  return dlmopen_after.get()(ns, file, mode & ~RTLD_DEEPBIND);
}
/// Who remembers addresses of code must hear of code that has gone.
MORTISE_EXPORT int dlclose(void* library) noexcept {
  if constexpr (kReadsCalls<Heap>) {
    const int result = dlclose_after.get()(library);
    AffinitySettings<Heap>::unloaded(heap);
    return result;
  } else {
    return dlclose_after.get()(library);
  }
}
}
