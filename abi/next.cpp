// Looking up what comes next, and the dynamic loader's front door.
//
// dlopen and dlmopen are passed on with RTLD_DEEPBIND cleared. A library opened with that flag binds to libc's free and
// would be handed our blocks; without it, it shares the malloc that the rest of the program uses. The call is passed on
// by a jump, so that the loader still sees the program as its caller (it resolves $ORIGIN and RUNPATH by it).
#include "abi/next.hpp"

#include <dlfcn.h>
#include <string.h>

#include "abi/affinity.hpp"
#include "abi/beside.hpp"
#include "mortise/core/inline.hpp"

#ifndef RTLD_DEEPBIND  // musl has no such flag
#define RTLD_DEEPBIND 0
#endif

namespace mortise::abi {
namespace {

/// One function that comes after ours, looked up on first use. Racing look-ups find the same address.
template <class F> class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}
  bool found() const noexcept { return __atomic_load_n(&found_, __ATOMIC_RELAXED) != nullptr; }
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
constinit Next<void*(std::size_t)> malloc_after{"malloc"};
constinit Next<void*(std::size_t, std::size_t)> calloc_after{"calloc"};
constinit Next<void*(std::size_t, std::size_t)> memalign_after{"memalign"};
constinit Next<void*(void*, std::size_t)> realloc_after{"realloc"};
constinit Next<std::size_t(void*)> usable_size_after{"malloc_usable_size"};
constinit Next<void*(const char*, int)> dlopen_after{"dlopen"};
constinit Next<void*(long, const char*, int)> dlmopen_after{"dlmopen"};
constinit Next<int(void*)> dlclose_after{"dlclose"};

/// Who remembers addresses of code must hear of code that has gone.
template <class H> [[maybe_unused]] void tell_of_unloaded_code(H& h) noexcept {
  if constexpr (requires { h.code_unloaded(); }) h.code_unloaded();
  else AffinitySettings<H>::unloaded(h);
}

}  // namespace

namespace {

/// What dlsym asks of malloc while it looks malloc up.
alignas(kMinAlign) constinit std::byte early_bytes[4096] = {};
constinit Atomic<std::size_t> early_used{0};
constinit Atomic<bool> is_looking_up{false};

bool is_early(const void* p) noexcept { return static_cast<const std::byte*>(p) - early_bytes < 4096 && p >= early_bytes; }

void* allocate_early(std::size_t size, std::size_t align) noexcept {
  const std::size_t bytes = round_up(size, kMinAlign);
  if (align > kMinAlign || bytes > sizeof early_bytes) return nullptr;
  const std::size_t at = early_used.fetch_add(bytes, Order::relaxed);
  return at + bytes <= sizeof early_bytes ? early_bytes + at : nullptr;
}

}  // namespace

void* next_allocate(std::size_t size, std::size_t align, bool zeroed) noexcept {
  if (is_looking_up.load(Order::relaxed)) return allocate_early(size, align);
  if (!malloc_after.found()) {
    is_looking_up.store(true, Order::relaxed);
    malloc_after.get(), calloc_after.get(), memalign_after.get(), free_after.get();
    is_looking_up.store(false, Order::relaxed);
  }
  if (align <= kMinAlign) {
    if (zeroed) return calloc_after.get() ? calloc_after.get()(1, size) : nullptr;
    return malloc_after.get() ? malloc_after.get()(size) : nullptr;
  }
  void* const p = memalign_after.get() ? memalign_after.get()(align, size) : nullptr;
  if (p && zeroed) __builtin_memset(p, 0, size);
  return p;
}
void next_free(void* p) noexcept {
  if (is_early(p)) return;
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

void* find_beside(const void* address, const char* name) noexcept {
  return find_beside(address, name, dlopen_after.get(), dlclose_after.get());
}

Place malloc_in_front() noexcept {
  void* const allocates = ::dlsym(RTLD_DEFAULT, "malloc");
  Place found[2];
  found[0].address = reinterpret_cast<std::uintptr_t>(allocates);
  found[1].address = reinterpret_cast<std::uintptr_t>(&is_early);  // something of ours
  Mappings{}.find(found, 2);
  if (!allocates || strcmp(found[0].file, found[1].file) == 0) return {};
  // In a program that is not position-independent the address of malloc may be that of a jump in the program. It is asked for a block.
  void* const p = reinterpret_cast<void* (*)(std::size_t)>(allocates)(1);
  const bool is_ours = heap.holds(static_cast<std::byte*>(p));
  if (void* const frees = ::dlsym(RTLD_DEFAULT, "free")) reinterpret_cast<void (*)(void*)>(frees)(p);
  return is_ours ? Place{} : found[0];
}

}  // namespace mortise::abi

using namespace mortise::abi;

extern "C" {
MORTISE_EXPORT void* dlopen(const char* file, int mode) noexcept {
  auto* const next = dlopen_after.get();  // a program that is linked statically has none
  return next ? next(file, mode & ~RTLD_DEEPBIND) : nullptr;
}
MORTISE_EXPORT void* dlmopen(long ns, const char* file, int mode) noexcept {
  auto* const next = dlmopen_after.get();
  return next ? next(ns, file, mode & ~RTLD_DEEPBIND) : nullptr;
}
MORTISE_EXPORT int dlclose(void* library) noexcept {
  if constexpr (kReadsCalls<Heap> || mortise::Profiles<Heap>) {
    const int result = dlclose_after.get()(library);
    tell_of_unloaded_code(heap);
    return result;
  } else {
    return dlclose_after.get()(library);
  }
}
}
