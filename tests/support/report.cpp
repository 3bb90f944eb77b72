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

}  // namespace mortise
