#include "affinity/observe/scope.hpp"

#include <dlfcn.h>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern "C" {
[[noreturn]] void __assert_fail(const char*, const char*, unsigned, const char*) noexcept;
[[noreturn]] void __stack_chk_fail();
}

namespace mortise::affinity {
namespace {

template <class F> std::uintptr_t address_of(F* function) { return reinterpret_cast<std::uintptr_t>(function); }

}  // namespace

Scope::Range Scope::module_of(std::uintptr_t pc) noexcept {
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(pc), &found) != 0) return {};
  return {reinterpret_cast<std::uintptr_t>(found.dlfo_map_start), reinterpret_cast<std::uintptr_t>(found.dlfo_map_end)};
}

void Scope::begin(const void* own) noexcept {
  if (!libc_.end) {
    libc_ = module_of(address_of(&::abort));
    loader_ = module_of(address_of(&::_dl_find_object));
    if (own) own_ = module_of(reinterpret_cast<std::uintptr_t>(own));
  }
  last_ = {};  // may have been unloaded
}

bool Scope::may_enter(std::uintptr_t pc) noexcept {
  if (within(last_, pc)) return true;
  if (within(libc_, pc) || within(loader_, pc) || within(own_, pc)) return false;
  const Range r = module_of(pc);
  if (!r.end) return false;
  last_ = r;
  return true;
}

bool Scope::returns_first_argument(std::uintptr_t pc) noexcept {
  return pc == address_of(&::memcpy) || pc == address_of(&::memmove) || pc == address_of(&::memset) ||
         pc == address_of<char*(char*, const char*)>(&::strcpy) || pc == address_of<char*(char*, const char*)>(&::strcat) ||
         pc == address_of<char*(char*, const char*, std::size_t)>(&::strncpy);
}

bool Scope::never_returns(std::uintptr_t pc) noexcept {
  return pc == address_of(&::abort) || pc == address_of(&::exit) || pc == address_of(&::_exit) ||
         pc == address_of(&::__assert_fail) || pc == address_of(&::__stack_chk_fail);
}

}  // namespace mortise::affinity
