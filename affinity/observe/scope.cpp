#include "affinity/observe/scope.hpp"

#include <dlfcn.h>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern "C" {
[[noreturn]] void __assert_fail(const char*, const char*, unsigned, const char*) noexcept;
[[noreturn]] void __stack_chk_fail();
void* __tls_get_addr(void*);  // the loader's
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
    loader_ = module_of(address_of(&::__tls_get_addr));
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

Outside Scope::outside(std::uintptr_t pc) noexcept {
  using TwoStrings = char*(char*, const char*);
  using TwoStringsN = char*(char*, const char*, std::size_t);
  if (pc == address_of(&::memset)) return Outside::fills;
  if (pc == address_of(&::memcpy) || pc == address_of(&::memmove)) return Outside::copies;
  if (pc == address_of<TwoStrings>(&::strcpy) || pc == address_of<TwoStrings>(&::strcat) ||
      pc == address_of<TwoStringsN>(&::strncpy))
    return Outside::returns_first_argument;
  if (pc == address_of(&::abort) || pc == address_of(&::exit) || pc == address_of(&::_exit) ||
      pc == address_of(&::__assert_fail) || pc == address_of(&::__stack_chk_fail))
    return Outside::never_returns;
  return Outside::unknown;
}

}  // namespace mortise::affinity
