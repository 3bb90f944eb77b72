#include "affinity/observe/code_cache.hpp"

namespace mortise::affinity {

// An instruction is decoded again when its bytes are others than those it was decoded from: modules come and go.
const Op* Code::at(std::uintptr_t pc, ForeignMemory& memory, bool& readable) noexcept {
  Entry& e = entries_[(pc ^ pc >> 11) % kEntries];
  if (e.pc == pc && e.round == round_) return &e.op;
  std::uint8_t bytes[16] = {};
  unsigned available = 16;
  if (!memory.read(pc, bytes, available)) {
    available = static_cast<unsigned>(ForeignMemory::kPageBytes - pc % ForeignMemory::kPageBytes);
    readable = available < 16 && memory.read(pc, bytes, available);
    if (!readable) return nullptr;
  }
  e.round = round_;
  if (e.pc == pc && __builtin_memcmp(e.bytes, bytes, e.op.length) == 0) return &e.op;
  e.pc = 0;
  if (available < 16 || !lift_plain(pc, bytes, e.op)) {
    ++decoded_;
    if (!lift(pc, bytes, available, e.op)) return nullptr;
  }
  e.pc = pc;
  __builtin_memcpy(e.bytes, bytes, sizeof bytes);
  return &e.op;
}

}  // namespace mortise::affinity
