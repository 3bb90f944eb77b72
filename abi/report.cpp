// The one way to die: a line that says what happened, then abort.
#include <stdlib.h>

#include "abi/heap.hpp"
#include "mortise/os/console.hpp"

namespace mortise {

[[noreturn]] void report(Fault fault, Block block) noexcept {
  os::Line<> line;
  line.text("mortise[").text(abi::Card::kName).text("] fault=").text(name_of(fault)).text(" ptr=").pointer(block.ptr);
  if (!block.is_unsized()) line.text(" size=").number(block.size);
  line.text(" hint=\"").text(hint_of(fault)).text("\"").flush();
  abort();
}

}  // namespace mortise
