#include "affinity/observe/code_cache.hpp"

namespace mortise::affinity {

// An instruction is decoded again when its bytes are others than those it was decoded from: modules come and go.
const Op* Code::look(std::uintptr_t pc, ForeignMemory& memory, bool& readable) noexcept {
  std::uint16_t& slot = slot_[slot_of(pc)];
  if (!slot) slot = ++used_;
  Entry& e = entries_[slot];
  std::uint8_t few[16];
  unsigned available = sizeof few;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(memory.in_page(pc, available));
  if (!bytes) {
    bytes = few;
    __builtin_memset(few, 0, sizeof few);
    if (!memory.read(pc, few, available)) {
      available = static_cast<unsigned>(ForeignMemory::kPageBytes - pc % ForeignMemory::kPageBytes);
      readable = available < 16 && memory.read(pc, few, available);
      if (!readable) return nullptr;
    }
  }
  e.round = round_;
  if (e.pc == pc && __builtin_memcmp(e.bytes, bytes, e.op.length) == 0) return &e.op;
  e.pc = 0;
  if (available < 16 || !lift_plain(pc, bytes, e.op)) {
    ++decoded_;
    if (!lift(pc, bytes, available, e.op)) return nullptr;
  }
  e.pc = pc;
  __builtin_memcpy(e.bytes, bytes, sizeof e.bytes);
  return &e.op;
}

}  // namespace mortise::affinity
