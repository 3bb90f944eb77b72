// What a fault does in a test: says so and ends the program, so that a death test can see it.
#include <cstdio>
#include <cstdlib>

#include "mortise/core/fault.hpp"

namespace mortise {

[[noreturn]] void report(Fault fault, Block block) noexcept {
  std::fprintf(stderr, "mortise[test] fault=%s ptr=%p size=%zu\n", name_of(fault), static_cast<void*>(block.ptr),
               static_cast<std::size_t>(block.size));
  std::abort();
}

void tell(const Crime& crime) noexcept {
  std::fprintf(stderr, "mortise[test] fault=%s ptr=%p size=%zu\n", name_of(crime.fault), static_cast<void*>(crime.block.ptr),
               static_cast<std::size_t>(crime.block.size));
}

bool goes_on_after(const Crime& crime) noexcept {
  tell(crime);
  return false;
}

}  // namespace mortise
