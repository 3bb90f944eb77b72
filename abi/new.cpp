// C++'s replaceable allocation functions. Nothing of the C++ library is needed to load this file: the new-handler and
// std::bad_alloc are looked up at the moment memory has run out, in the library that the program brought.
#include <dlfcn.h>
#include <stdlib.h>

#include <cstddef>
#include <new>

#include "mortise/core/core.hpp"
#include "mortise/os/console.hpp"

extern "C" {
void* malloc(std::size_t) noexcept;
void free(void*) noexcept;
int posix_memalign(void**, std::size_t, std::size_t) noexcept;
}

namespace {

using Handler = void (*)();

void* try_allocate(std::size_t size, std::size_t align) noexcept {
  if (align <= mortise::kMinAlign) return malloc(size);
  void* p = nullptr;
  return posix_memalign(&p, align, size) == 0 ? p : nullptr;
}

/// The standard's loop: ask the program's new-handler to make room, as long as it has one; then throw, or give up with null.
MORTISE_COLD void* allocate_failed(std::size_t size, std::size_t align, bool may_throw) {
  const auto get_handler = reinterpret_cast<Handler (*)()>(dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv"));
  while (Handler handler = get_handler ? get_handler() : nullptr) {
    handler();
    if (void* p = try_allocate(size, align)) return p;
  }
  if (!may_throw) return nullptr;
  if (const auto throw_bad_alloc = reinterpret_cast<Handler>(dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv"))) throw_bad_alloc();
  mortise::os::Line<> line;
  line.text("mortise: operator new(").number(size).text(") found no memory and no C++ library to throw std::bad_alloc").flush();
  abort();
}

MORTISE_HOT void* allocate(std::size_t size, bool may_throw = true) {
  void* p = malloc(size);
  if (!p) [[unlikely]] return allocate_failed(size, mortise::kMinAlign, may_throw);
  return p;
}
MORTISE_HOT void* allocate(std::size_t size, std::align_val_t align, bool may_throw = true) {
  void* p = try_allocate(size, static_cast<std::size_t>(align));
  if (!p) [[unlikely]] return allocate_failed(size, static_cast<std::size_t>(align), may_throw);
  return p;
}

}  // namespace

#define MORTISE_OPERATOR [[gnu::visibility("default")]]

MORTISE_OPERATOR void* operator new(std::size_t n) { return allocate(n); }
MORTISE_OPERATOR void* operator new[](std::size_t n) { return allocate(n); }
MORTISE_OPERATOR void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, false); }
MORTISE_OPERATOR void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, false); }
MORTISE_OPERATOR void* operator new(std::size_t n, std::align_val_t a) { return allocate(n, a); }
MORTISE_OPERATOR void* operator new[](std::size_t n, std::align_val_t a) { return allocate(n, a); }
MORTISE_OPERATOR void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, a, false); }
MORTISE_OPERATOR void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return allocate(n, a, false); }

MORTISE_OPERATOR void operator delete(void* p) noexcept { free(p); }
MORTISE_OPERATOR void operator delete[](void* p) noexcept { free(p); }
MORTISE_OPERATOR void operator delete(void* p, const std::nothrow_t&) noexcept { free(p); }
MORTISE_OPERATOR void operator delete[](void* p, const std::nothrow_t&) noexcept { free(p); }
MORTISE_OPERATOR void operator delete(void* p, std::size_t) noexcept { free(p); }
MORTISE_OPERATOR void operator delete[](void* p, std::size_t) noexcept { free(p); }
MORTISE_OPERATOR void operator delete(void* p, std::align_val_t) noexcept { free(p); }
MORTISE_OPERATOR void operator delete[](void* p, std::align_val_t) noexcept { free(p); }
MORTISE_OPERATOR void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { free(p); }
MORTISE_OPERATOR void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { free(p); }
MORTISE_OPERATOR void operator delete(void* p, std::size_t, std::align_val_t) noexcept { free(p); }
MORTISE_OPERATOR void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { free(p); }
