// Looking for what stands in front of ours, once, and calling what the C++ library makes of it.
#include "abi/front.hpp"

#include <dlfcn.h>

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char etext[] __attribute__((visibility("hidden")));

namespace mortise::abi {

constinit Front front{};

namespace {

/// Of a program that is not position-independent it may be a jump to ours: taken for the program's, which makes no difference but time.
void* in_front(const char* name) noexcept {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  const auto* const at = static_cast<const char*>(found);
  return at >= __ehdr_start && at < etext ? nullptr : found;
}

struct Operator {
  const char* name;
  const char* basic;
  void* found = nullptr;  // racing look-ups find the same
};

constinit Operator operators[] = {
    {"_Znam", "_Znwm"},
    {"_ZnwmRKSt9nothrow_t", "_Znwm"},
    {"_ZnamRKSt9nothrow_t", "_Znam"},
    {"_ZnamSt11align_val_t", "_ZnwmSt11align_val_t"},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnwmSt11align_val_t"},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_t"},
    {"_ZdaPv", "_ZdlPv"},
    {"_ZdlPvm", "_ZdlPv"},
    {"_ZdlPvRKSt9nothrow_t", "_ZdlPv"},
    {"_ZdaPvm", "_ZdaPv"},
    {"_ZdaPvRKSt9nothrow_t", "_ZdaPv"},
    {"_ZdaPvSt11align_val_t", "_ZdlPvSt11align_val_t"},
    {"_ZdlPvmSt11align_val_t", "_ZdlPvSt11align_val_t"},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdlPvSt11align_val_t"},
    {"_ZdaPvmSt11align_val_t", "_ZdaPvSt11align_val_t"},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_t"},
};

void* function_of(Derived which) noexcept {
  Operator& o = operators[static_cast<unsigned>(which)];
  void* found = __atomic_load_n(&o.found, __ATOMIC_RELAXED);
  if (found) return found;
  found = ::dlsym(RTLD_NEXT, o.name);
  if (!found) found = ::dlsym(RTLD_DEFAULT, o.basic);
  __atomic_store_n(&o.found, found, __ATOMIC_RELAXED);
  return found;
}

}  // namespace

void look_to_the_front() noexcept {
  for (const Operator& o : operators)
    if (in_front(o.basic)) front.has_operators = true;
  front.reallocates = reinterpret_cast<void* (*)(void*, std::size_t)>(in_front("realloc"));
}

void* new_by_program(Derived which, std::size_t size, std::uintptr_t second, std::uintptr_t third) {
  return reinterpret_cast<void* (*)(std::size_t, std::uintptr_t, std::uintptr_t)>(function_of(which))(size, second, third);
}

void delete_by_program(Derived which, void* p, std::uintptr_t second, std::uintptr_t third) {
  reinterpret_cast<void (*)(void*, std::uintptr_t, std::uintptr_t)>(function_of(which))(p, second, third);
}

}  // namespace mortise::abi
