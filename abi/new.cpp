// operator new without memory, and what a nothrow form catches. Nothing of the C++ library is needed to load this file, which is the one
// that is compiled with exceptions: what it names of that library is weak, found in the program (linked statically there is no other way)
// or beside it. A library that came later, with a plug-in, is asked itself at the moment memory has run out.
#include <dlfcn.h>
#include <stdlib.h>

#include <new>

#include "abi/beside.hpp"
#include "abi/front.hpp"
#include "abi/heap.hpp"
#include "abi/next.hpp"
#include "mortise/os/console.hpp"

extern "C" {
[[gnu::weak]] std::new_handler linked_get_handler() noexcept asm("_ZSt15get_new_handlerv");
[[gnu::weak]] void linked_throw_bad_alloc() asm("_ZSt17__throw_bad_allocv");
[[gnu::weak]] void* linked_begin_catch(void*) noexcept asm("__cxa_begin_catch");
}
asm(".weak __gxx_personality_v0, __cxa_end_catch");  // these two are what the compiler makes `catch` of, too

namespace mortise::abi {
namespace {

constexpr std::nothrow_t kNothrow{};

/// The standard's loop: as long as there is a new-handler, call it and try again. Null when there is none.
void* ask_handlers(std::size_t size, std::size_t align) {
  if (!linked_get_handler) return nullptr;
  while (const std::new_handler handler = linked_get_handler()) {
    handler();
    if (void* p = allocate_slow(size, align, false)) return p;
  }
  return nullptr;
}

/// The same operator of a library that came later, often seen by the caller alone. Our malloc, which it calls, fails again, and it does
/// what it must: asks its new-handler, throws, and catches. Null when there is none.
void* new_there(std::size_t size, std::size_t align, bool may_throw, const void* caller) {
  const bool is_aligned = align > kMinAlign;
  const char* const name = may_throw ? (is_aligned ? "_ZnwmSt11align_val_t" : "_Znwm")
                                     : (is_aligned ? "_ZnwmSt11align_val_tRKSt9nothrow_t" : "_ZnwmRKSt9nothrow_t");
  void* theirs = find_beside(caller, name);
  if (!theirs) theirs = find_beside(dlsym(RTLD_DEFAULT, "__cxa_begin_catch"), name);
  if (!theirs || is_of(theirs, &front)) return nullptr;
  if (is_aligned) return reinterpret_cast<void* (*)(std::size_t, std::size_t, const std::nothrow_t&)>(theirs)(size, align, kNothrow);
  return reinterpret_cast<void* (*)(std::size_t, const std::nothrow_t&)>(theirs)(size, kNothrow);
}

void* catching(auto&& make) {
  try {
    return make();
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

MORTISE_COLD void* new_failed(std::size_t size, std::size_t align, bool may_throw, const void* caller) {
  if (!linked_begin_catch) {
    void* const p = new_there(size, align, may_throw, caller);
    if (p || !may_throw) return p;
  }
  if (!may_throw) return catching([=] { return ask_handlers(size, align); });
  if (void* p = ask_handlers(size, align)) return p;
  if (linked_throw_bad_alloc) linked_throw_bad_alloc();
  os::Line<> line;
  line.text("mortise: operator new(")
      .number(size)
      .text(") found no memory and no C++ library to throw std::bad_alloc")
      .flush();
  abort();
}

void* nothrow_by_program(Derived which, std::size_t size, std::uintptr_t second) {
  return catching([=] { return new_by_program(which, size, second); });
}

}  // namespace mortise::abi
