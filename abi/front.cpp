// Looking for what stands in front of ours, once: before the program begins, since to look things up waits for whoever loads a library.
#include "abi/front.hpp"

#include <dlfcn.h>
#include <link.h>

namespace mortise::abi {

constinit Front front{};

namespace {

constexpr int kNowhere = -1;

struct Search {
  std::uintptr_t address;
  int at = 0, found = kNowhere;
};

int look_into(dl_phdr_info* object, std::size_t, void* search) noexcept {
  auto& s = *static_cast<Search*>(search);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && s.address - (object->dlpi_addr + part.p_vaddr) < part.p_memsz) s.found = s.at;
  }
  ++s.at;
  return s.found != kNowhere;
}

/// The place in the order of search of the object that holds an address; kNowhere for null, and for what no object holds.
int place_of(const void* address) noexcept {
  Search s{reinterpret_cast<std::uintptr_t>(address)};
  if (address) ::dl_iterate_phdr(&look_into, &s);
  return s.found;
}

struct Operator {
  const char* name;
  const char* basic;
  bool catches = false;  // what the basic one throws
  void* found = nullptr;
};

constinit Operator operators[] = {
    {"_Znam", "_Znwm"},
    {"_ZnwmRKSt9nothrow_t", "_Znwm", true},
    {"_ZnamRKSt9nothrow_t", "_Znam", true},
    {"_ZnamSt11align_val_t", "_ZnwmSt11align_val_t"},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnwmSt11align_val_t", true},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_t", true},
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

/// The C++ library's, and not that of an allocator behind us, which knows nothing of the program's. Without one the basic one itself.
void* of_library(const Operator& o) noexcept {
  void* const next = o.catches ? ::dlsym(RTLD_NEXT, o.name) : nullptr;
  const bool is_of_library = next && place_of(next) == place_of(::dlsym(RTLD_DEFAULT, "__cxa_begin_catch"));
  return is_of_library ? next : ::dlsym(RTLD_DEFAULT, o.basic);
}

}  // namespace

void look_to_the_front() noexcept {
  const int ours = place_of(&front), libc = place_of(::dlsym(RTLD_DEFAULT, "__libc_start_main"));
  if (libc != kNowhere && ours > libc) return;  // opened by dlopen: we serve nobody by name
  // Of a program that is not position-independent it may be a jump to ours: taken for the program's, which comes to ours without a size.
  const auto in_front = [ours](const char* name) noexcept {
    void* const found = ::dlsym(RTLD_DEFAULT, name);
    const int place = place_of(found);
    return place != kNowhere && place < ours ? found : nullptr;
  };
  front.reallocates = reinterpret_cast<void* (*)(void*, std::size_t)>(in_front("realloc"));
  bool has_operators = false;
  for (const Operator& o : operators) has_operators |= in_front(o.basic) != nullptr;
  if (!has_operators) return;
  for (Operator& o : operators) o.found = of_library(o);
  front.has_operators = true;
}

void* new_by_program(Derived which, std::size_t size, std::uintptr_t second, std::uintptr_t third) {
  using New = void* (*)(std::size_t, std::uintptr_t, std::uintptr_t);
  return reinterpret_cast<New>(operators[static_cast<unsigned>(which)].found)(size, second, third);
}

void delete_by_program(Derived which, void* p, std::uintptr_t second, std::uintptr_t third) {
  using Delete = void (*)(void*, std::uintptr_t, std::uintptr_t);
  reinterpret_cast<Delete>(operators[static_cast<unsigned>(which)].found)(p, second, third);
}

}  // namespace mortise::abi
