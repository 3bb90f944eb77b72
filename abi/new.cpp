// operator new without memory. Nothing of the C++ library is needed to load this file: the new-handler and
// std::bad_alloc are looked up at the moment memory has run out, in the library that the program brought.
#include <dlfcn.h>
#include <stdlib.h>

#include <new>

#include "abi/heap.hpp"
#include "mortise/os/console.hpp"

namespace mortise::abi {
namespace {

constexpr std::nothrow_t kNothrow{};

template <class F> F* find(void* where, const char* name) noexcept { return reinterpret_cast<F*>(dlsym(where, name)); }

/// The C++ library's nothrow form calls our throwing one and turns what the new-handler throws into null, which takes
/// the library's own means. Without a C++ library there is no new-handler.
void* give_up(std::size_t size, std::size_t align) noexcept {
  if (align <= kMinAlign) {
    auto* const theirs = find<void*(std::size_t, const std::nothrow_t&)>(RTLD_NEXT, "_ZnwmRKSt9nothrow_t");
    return theirs ? theirs(size, kNothrow) : nullptr;
  }
  auto* const theirs = find<void*(std::size_t, std::align_val_t, const std::nothrow_t&)>(
      RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");
  return theirs ? theirs(size, std::align_val_t{align}, kNothrow) : nullptr;
}

}  // namespace

/// The standard's loop: as long as there is a new-handler, call it and try again.
MORTISE_COLD void* new_failed(std::size_t size, std::size_t align, bool may_throw) {
  using Handler = void (*)();
  auto* const get_handler = find<Handler()>(RTLD_DEFAULT, "_ZSt15get_new_handlerv");
  Handler handler = get_handler ? get_handler() : nullptr;
  if (!may_throw) return handler ? give_up(size, align) : nullptr;
  for (; handler; handler = get_handler()) {
    handler();
    if (void* p = allocate_slow(size, align, false)) return p;
  }
  if (auto* const throw_bad_alloc = find<void()>(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv")) throw_bad_alloc();
  os::Line<> line;
  line.text("mortise: operator new(")
      .number(size)
      .text(") found no memory and no C++ library to throw std::bad_alloc")
      .flush();
  abort();
}

}  // namespace mortise::abi
