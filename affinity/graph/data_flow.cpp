#include "affinity/graph/data_flow.hpp"

namespace mortise::affinity {
namespace {

using Place = Operand::Place;

constexpr std::uintptr_t kLiveStackBytes = 8 << 20, kDeadStackBytes = 1 << 20;

constexpr bool same(const Value& a, const Value& b) {
  return a.known == b.known && a.derived == b.derived && (!a.known || a.bits == b.bits);
}

}  // namespace

bool DataFlow::address_of(const Operand& o, std::uintptr_t& address) const noexcept {
  if (o.opaque || o.thread_local_) return false;
  auto sum = static_cast<std::uintptr_t>(o.value);
  if (o.reg != kNoRegister) {
    if (!(now_.general.known >> o.reg & 1)) return false;
    sum += now_.general.bits[o.reg];
  }
  if (o.index != kNoRegister) {
    if (!(now_.general.known >> o.index & 1)) return false;
    sum += now_.general.bits[o.index] * o.scale;
  }
  address = sum;
  return true;
}

Value DataFlow::load(std::uintptr_t address, unsigned bytes) noexcept {
  for (unsigned n = 0; n < now_.slots; ++n) {
    const std::uintptr_t at = now_.slot_at[n];
    if (at == address && bytes == 8) return now_.slot[n];
    if (address - at < 8 || at - address < bytes) return {};
  }
  if (address - object_ < size_) return {};  // what is in it before it is written means nothing
  std::uint64_t bits = 0;
  return bytes <= 8 && memory_->read(address, &bits, bytes) ? Value::of(bits) : Value{};
}

void DataFlow::note(std::uintptr_t address, Value v) noexcept {
  const bool dead_stack = address < stack_ && address >= stack_ - kDeadStackBytes;
  const bool live_stack = address >= stack_ && address < stack_ + kLiveStackBytes;
  const bool like_pointer = v.bits >= ForeignMemory::kPageBytes * 16 && !(v.bits >> 47);
  if (dead_stack || (!v.derived && (live_stack || !like_pointer)) || stores_ == kStores) return;
  for (unsigned n = 0; n < stores_; ++n)
    if (store_[n].address == address && store_[n].value == v.bits) return;
  store_[stores_++] = {address, v.bits, v.derived};
}

void DataFlow::store(std::uintptr_t address, unsigned bytes, Value v) noexcept {
  if (bytes != 8) v = {};
  if (v.known) note(address, v);
  unsigned free = now_.slots;
  for (unsigned n = 0; n < now_.slots; ++n) {
    const std::uintptr_t at = now_.slot_at[n];
    if (at == address) free = n;
    else if (address - at < 8 || at - address < bytes) now_.slot.forget(1u << n);
  }
  if (free == kSlots) return;
  now_.slot_at[free] = address;
  now_.slot.set(free, v);
  if (free == now_.slots) ++now_.slots;
}

Value DataFlow::read(const Operand& o) noexcept {
  std::uintptr_t address;
  switch (o.place) {
    case Place::general: return o.bytes == 8 ? now_.general[o.reg] : Value{};
    case Place::immediate: return Value::of(static_cast<std::uint64_t>(o.value));
    case Place::memory: return o.bytes == 8 && address_of(o, address) ? load(address, 8) : Value{};
    default: return {};
  }
}

Value DataFlow::read_lane(const Operand& o, unsigned n) noexcept {
  std::uintptr_t address;
  if (o.place == Place::vector) return now_.lane[2 * o.reg + n];
  if (o.place == Place::general) return o.bytes == 8 ? now_.general[o.reg] : Value{};
  return o.place == Place::memory && address_of(o, address) ? load(address + 8 * n, 8) : Value{};
}

void DataFlow::write(const Operand& o, Value v) noexcept {
  std::uintptr_t address;
  if (o.place == Place::general) {
    if (o.bytes == 4 && v.known) v = Value::of(v.bits & 0xffffffff);
    now_.general.set(o.reg, o.bytes >= 4 ? v : Value{});
  } else if (o.place == Place::memory && address_of(o, address)) {
    for (unsigned done = 0; done < o.bytes; done += 8)
      store(address + done, o.bytes - done < 8u ? o.bytes - done : 8u, done ? Value{} : v);
  } else if (o.place == Place::vector) {
    now_.lane.forget(3u << 2 * o.reg);
  }
}

void DataFlow::forget_caller_saved() noexcept {
  constexpr std::uint16_t kCalleeSaved = 1u << kRbx | 1u << kRsp | 1u << kRbp | 0xf000;
  now_.general.forget(static_cast<std::uint16_t>(~kCalleeSaved));
  now_.lane.forget(~0u);
}

void DataFlow::execute_vector(const Op& op) noexcept {
  std::uintptr_t address;
  Value low, high;
  switch (op.kind) {
    case Kind::vector_move: low = read_lane(op.a, 0), high = read_lane(op.a, 1); break;
    case Kind::vector_low: low = read_lane(op.a, 0), high = Value::of(0); break;
    case Kind::vector_zero: low = high = Value::of(0); break;
    case Kind::vector_pair_low: low = read_lane(op.a, 0), high = read_lane(op.b, 0); break;
    case Kind::vector_pair_high: low = read_lane(op.a, 1), high = read_lane(op.b, 1); break;
    case Kind::vector_high:
      if (op.to.place == Place::vector) low = now_.lane[2 * op.to.reg], high = read_lane(op.a, 0);
      else low = read_lane(op.a, 1);
      break;
    case Kind::vector_insert:
      low = op.condition ? read_lane(op.a, 0) : read_lane(op.b, 0), high = op.condition ? read_lane(op.b, 0) : read_lane(op.a, 1);
      break;
    default: return write(op.to, {});
  }
  if (op.to.place == Place::vector) {
    now_.lane.set(2 * op.to.reg, low), now_.lane.set(2 * op.to.reg + 1, high);
  } else if (op.to.place == Place::general) {
    write(op.to, low);
  } else if (op.to.place == Place::memory && address_of(op.to, address)) {
    store(address, 8, low);
    if (op.kind == Kind::vector_move) store(address + 8, 8, high);
  }
}

// What is not followed writes something that is not known.
void DataFlow::forget(const Op& op) noexcept {
  if (op.kind != Kind::forget) return write(op.to, {});
  now_.general.forget(op.writes_general);
  for (unsigned r = 0; op.writes_vector >> r; ++r)
    if (op.writes_vector >> r & 1) now_.lane.forget(3u << 2 * r);
  if (op.to.place == Place::memory) write(op.to, {});
}

// The stack, moved.
bool DataFlow::execute_stack(const Op& op) noexcept {
  std::uint64_t& sp = now_.general.bits[kRsp];
  if (op.kind == Kind::push) {
    sp -= 8;
    store(sp, 8, read(op.a));
    return true;
  }
  if (op.kind == Kind::leave) {
    const Value frame = now_.general[kRbp];
    if (!frame.known) return false;
    now_.general.set(kRsp, {frame.bits + 8, true, frame.derived});
    now_.general.set(kRbp, load(frame.bits, 8));
    return true;
  }
  const Value v = load(sp, 8);
  sp += 8;
  write(op.to, v);
  return knows_stack();
}

// Everything but control; false when the way cannot be followed.
bool DataFlow::execute(const Op& op) noexcept {
  std::uintptr_t address;
  switch (op.kind) {
    case Kind::nothing: case Kind::compare: case Kind::test: return true;
    case Kind::move: write(op.to, op.to.bytes == op.a.bytes ? read(op.a) : Value{}); return true;
    case Kind::address: {
      const bool base = op.a.reg != kNoRegister && now_.general.is_derived(op.a.reg);
      const bool index = op.a.index != kNoRegister && op.a.scale == 1 && now_.general.is_derived(op.a.index);
      write(op.to, address_of(op.a, address) ? derive(address, base != index) : Value{});
      return true;
    }
    case Kind::add: case Kind::subtract: {
      const Value a = read(op.a), b = read(op.b);
      const bool add = op.kind == Kind::add;
      Value r;
      if (a.known && b.known) r = derive(add ? a.bits + b.bits : a.bits - b.bits, add ? a.derived != b.derived : a.derived && !b.derived);
      write(op.to, r);
      return knows_stack();
    }
    case Kind::push: case Kind::pop: case Kind::leave: return execute_stack(op);
    case Kind::exchange: {
      const Value a = read(op.a), to = read(op.to);
      write(op.to, a), write(op.a, to);
      return knows_stack();
    }
    case Kind::select: {  // either
      const Value a = read(op.a), to = read(op.to);
      write(op.to, same(a, to) ? a : a.derived ? a : to.derived ? to : Value{});
      return knows_stack();
    }
    case Kind::bit_xor: {
      const bool zero = op.a.place == Place::general && op.b.place == Place::general && op.a.reg == op.b.reg;
      write(op.to, zero ? Value::of(0) : Value{});
      return knows_stack();
    }
    case Kind::fill: case Kind::copy: return false;
    case Kind::multiply_wide: case Kind::divide: now_.general.forget(1u << kRax | 1u << kRdx); return true;
    default:
      if (op.kind >= Kind::vector_move && op.kind <= Kind::vector_insert) execute_vector(op);
      else forget(op);
      return knows_stack();
  }
}

bool DataFlow::holds_pointer() const noexcept {
  if (now_.general.derived | now_.lane.derived) return true;
  for (std::uint32_t left = now_.slot.derived; left; left &= left - 1) {
    const std::uintptr_t at = now_.slot_at[__builtin_ctz(left)];
    if (at >= now_.general.bits[kRsp] && at < stack_ + kLiveStackBytes) return true;
  }
  return false;
}

// What both states agree on stays. True if `into` lost something.
bool DataFlow::meet(State& into) const noexcept {
  std::uint32_t changed = 0;
  const auto keep = [&](auto& a, const auto& b) {
    std::uint32_t lost = a.known & (~b.known | (a.derived ^ b.derived));
    for (std::uint32_t left = a.known & ~lost; left; left &= left - 1) {
      const auto n = static_cast<unsigned>(__builtin_ctz(left));
      if (a.bits[n] != b.bits[n]) lost |= 1u << n;
    }
    a.forget(lost);
    changed |= lost;
  };
  keep(into.general, now_.general);
  keep(into.lane, now_.lane);
  for (std::uint32_t left = into.slot.known; left; left &= left - 1) {
    const auto n = static_cast<unsigned>(__builtin_ctz(left));
    unsigned m = 0;
    while (m < now_.slots && now_.slot_at[m] != into.slot_at[n]) ++m;
    if (m < now_.slots && same(into.slot[n], now_.slot[m])) continue;
    into.slot.forget(1u << n);
    changed = 1;
  }
  return changed != 0;
}

int DataFlow::block_at(std::uintptr_t pc) const noexcept {
  if (!(begins_ & mark_of(pc))) return -1;
  for (unsigned n = 0; n < blocks_; ++n)
    if (pc_[n] == pc) return static_cast<int>(n);
  return -1;
}

void DataFlow::reach(std::uintptr_t pc) noexcept {
  if (!holds_pointer()) return;
  if (const int n = block_at(pc); n >= 0) {
    if (meet(block_[n].state) && block_[n].visits < kVisits) waits_ |= std::uint64_t{1} << n;
    return;
  }
  if (blocks_ == kBlocks) return;
  pc_[blocks_] = pc;
  begins_ |= mark_of(pc);
  waits_ |= std::uint64_t{1} << blocks_;
  Block& b = block_[blocks_++];
  b.state.take(now_), b.visits = 0;
}

void DataFlow::follow(unsigned block) noexcept {
  now_.take(block_[block].state);
  waits_ &= ~(std::uint64_t{1} << block);
  ++block_[block].visits;
  std::uintptr_t pc = pc_[block];
  while (looked_at_ < kInstructions && holds_pointer()) {
    if (pc != pc_[block] && block_at(pc) >= 0) return reach(pc);
    bool readable = true;
    const Op* const op = code_->at(pc, *memory_, readable);
    if (!op) return;
    ++looked_at_;
    pc += op->length;
    switch (op->kind) {
      case Kind::stop: case Kind::ret: return;
      case Kind::jump:
        if (op->a.place == Place::immediate) reach(static_cast<std::uintptr_t>(op->a.value));
        return;
      case Kind::branch:
        reach(static_cast<std::uintptr_t>(op->a.value));
        reach(pc);
        return;
      case Kind::call: forget_caller_saved(); break;
      default:
        if (!execute(*op)) return;
    }
  }
}

unsigned DataFlow::run(Code& code, ForeignMemory& memory, const Start& start) noexcept {
  code_ = &code, memory_ = &memory;
  object_ = start.object, size_ = start.size, stack_ = start.general[kRsp].bits;
  blocks_ = stores_ = looked_at_ = 0;
  begins_ = waits_ = 0;
  now_.slots = 0;
  now_.slot.forget(~0u), now_.lane.forget(~0u);
  for (unsigned r = 0; r < 16; ++r) now_.general.set(r, start.general[r]);
  reach(start.pc);
  while (waits_) follow(static_cast<unsigned>(__builtin_ctzll(waits_)));
  return looked_at_;
}

}  // namespace mortise::affinity
