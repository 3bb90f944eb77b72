#include "affinity/observe/machine.hpp"

namespace mortise::affinity {
namespace {

using Place = Operand::Place;

constexpr std::uintptr_t kDeadStackBytes = 1 << 20, kLiveStackBytes = 8 << 20;

constexpr std::uint64_t mask_of(unsigned bytes) { return bytes >= 8 ? ~0ull : (1ull << (8 * bytes)) - 1; }

std::uintptr_t thread_pointer() {
  std::uintptr_t self;
  asm("mov %%fs:0, %0" : "=r"(self));
  return self;
}

}  // namespace

void Machine::begin(std::uintptr_t stack, std::uintptr_t object, std::size_t size) noexcept {
  for (Value& v : general_) v = {};
  for (auto& v : vector_) v[0] = v[1] = {};
  derived_vector_ = derived_general_ = flags_ = flags_known_ = 0;
  unreadable_ = full_ = too_long_ = false;
  stack_ = stack, object_ = object, size_ = size;
  stores_ = slots_ = accesses_ = 0;
  memory_.begin(stack);
}

bool Machine::address_of(const Operand& o, std::uintptr_t& address) const noexcept {
  if (o.opaque) return false;
  auto sum = static_cast<std::uintptr_t>(o.value);
  if (o.reg != kNoRegister) {
    if (!general_[o.reg].known) return false;
    sum += general_[o.reg].bits;
  }
  if (o.index != kNoRegister) {
    if (!general_[o.index].known) return false;
    sum += general_[o.index].bits * o.scale;
  }
  if (o.thread_local_) sum += thread_pointer();
  address = sum;
  return true;
}

Value Machine::load(std::uintptr_t address, unsigned bytes) noexcept {
  bool readable = true;
  if (accesses_ < kAccesses) access_[accesses_++] = address;
  const Value v = memory_.load(address, bytes, readable);
  if (!readable) unreadable_ = true;
  return v;
}

// Keeps what may become an edge: a pointer into the object wherever it goes but into a frame that is gone when the
// allocation's caller runs on, and pointers that are written elsewhere in the heap.
void Machine::note(std::uintptr_t address, Value v) noexcept {
  const bool dead_stack = address < stack_ && address >= stack_ - kDeadStackBytes;
  const bool live_stack = address >= stack_ && address < stack_ + kLiveStackBytes;
  if (v.derived && (dead_stack || live_stack) && slots_ < kSlots) slot_[slots_++] = address;
  const bool like_pointer = v.bits >= ForeignMemory::kPageBytes * 16 && !(v.bits >> 47);
  if (dead_stack || (!v.derived && (live_stack || !like_pointer)) || stores_ == kStores) return;
  store_[stores_++] = {address, v.bits, v.derived};
}

void Machine::store(std::uintptr_t address, unsigned bytes, Value v) noexcept {
  if (accesses_ < kAccesses) access_[accesses_++] = address;
  if (!memory_.store(address, bytes, v)) full_ = true;
  if (bytes == 8 && v.known) note(address, v);
}

// Of a register, or of memory.
Value Machine::read_part(const Operand& o) noexcept {
  switch (o.place) {
    case Place::general: return Value::of(general_[o.reg].bits >> (o.high_byte ? 8 : 0) & mask_of(o.bytes));
    case Place::memory: {
      std::uintptr_t address;
      return o.bytes <= 8 && address_of(o, address) ? load(address, o.bytes) : Value{};
    }
    default: return {};
  }
}

void Machine::write_part(const Operand& o, Value v) noexcept {
  if (o.place == Place::general) {
    v.derived = false;
    if (o.bytes == 4) return set_general(o.reg, v.known ? Value::of(v.bits & mask_of(4)) : Value{});
    const Value before = general_[o.reg];
    if (!v.known || !before.known) return set_general(o.reg, {});
    const unsigned shift = o.high_byte ? 8 : 0;
    const std::uint64_t hole = mask_of(o.bytes) << shift;
    set_general(o.reg, Value::of((before.bits & ~hole) | ((v.bits << shift) & hole)));
  } else if (o.place == Place::memory) {
    std::uintptr_t address;
    if (!address_of(o, address)) return;
    if (o.bytes <= 8) return store(address, o.bytes, v);
    for (unsigned done = 0; done < o.bytes; done += 8)
      store(address + done, o.bytes - done < 8u ? o.bytes - done : 8u, done ? Value{} : v);
  }
}

Value Machine::pop() noexcept {
  const Value sp = general_[kRsp];
  if (!sp.known) return {};
  const Value v = load(sp.bits, 8);
  set_general(kRsp, Value::of(sp.bits + 8));
  return v;
}

void Machine::push(Value v) noexcept {
  const Value sp = general_[kRsp];
  if (!sp.known) return;
  set_general(kRsp, Value::of(sp.bits - 8));
  store(sp.bits - 8, 8, v);
}

int Machine::holds(unsigned condition) const noexcept {
  if (condition >= 16) return -1;
  constexpr std::uint8_t kNeeds[8] = {kOverflow, kCarry, kZero, kCarry | kZero, kSign, kParity, kSign | kOverflow,
                                      kSign | kOverflow | kZero};
  const std::uint8_t needs = kNeeds[condition >> 1];
  if ((flags_known_ & needs) != needs) return -1;
  const bool less = ((flags_ & kSign) != 0) != ((flags_ & kOverflow) != 0);
  bool result;
  switch (condition >> 1) {
    case 6: result = less; break;
    case 7: result = less || (flags_ & kZero); break;
    default: result = (flags_ & needs) != 0; break;
  }
  return result != ((condition & 1) != 0) ? 1 : 0;
}

void Machine::forget_caller_saved() noexcept {
  constexpr std::uint16_t kCalleeSaved = 1u << kRbx | 1u << kRsp | 1u << kRbp | 0xf000;
  for (unsigned r = 0; r < 16; ++r)
    if (!(kCalleeSaved >> r & 1)) general_[r] = {};
  derived_general_ &= kCalleeSaved;
  for (auto& v : vector_) v[0] = v[1] = {};
  derived_vector_ = 0;
  forget_flags();
}

bool Machine::holds_pointer() const noexcept {
  if ((derived_general_ & ~(1u << kRsp)) || derived_vector_) return true;
  for (unsigned n = 0; n < slots_; ++n)
    if (slot_[n] >= general_[kRsp].bits && memory_.holds_derived(slot_[n])) return true;
  return false;
}

void Machine::forget(const Op& op) noexcept {
  for (unsigned r = 0; r < 16; ++r) {
    if (op.writes_general >> r & 1) set_general(r, {});
    if (op.writes_vector >> r & 1) set_lane(r, 0, {}), set_lane(r, 1, {});
  }
  if (op.to.place == Place::memory) write(op.to, {});
  if (op.writes_flags) forget_flags();
}

}  // namespace mortise::affinity
