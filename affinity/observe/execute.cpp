// What each operation does to the machine: integers, vectors, strings.
#include "affinity/observe/machine.hpp"

namespace mortise::affinity {
namespace {

using Place = Operand::Place;
using Wide = unsigned __int128;

constexpr std::uint64_t mask_of(unsigned bytes) { return bytes >= 8 ? ~0ull : (1ull << (8 * bytes)) - 1; }
constexpr bool sign_of(std::uint64_t bits, unsigned bytes) { return bits >> (8 * bytes - 1) & 1; }
constexpr std::int64_t extend(std::uint64_t bits, unsigned bytes) {
  const unsigned drop = 64 - 8 * bytes;
  return static_cast<std::int64_t>(bits << drop) >> drop;
}

constexpr unsigned kElements = 128;  // of a string operation; longer ones are not followed

}  // namespace

void Machine::flags_of_result(std::uint64_t result, unsigned bytes, bool carry, bool overflow) noexcept {
  result &= mask_of(bytes);
  const bool is_even = !__builtin_parity(static_cast<unsigned>(result & 0xff));
  flags_ = static_cast<std::uint8_t>((result == 0 ? kZero : 0) | (sign_of(result, bytes) ? kSign : 0) | (is_even ? kParity : 0) |
                                     (carry ? kCarry : 0) | (overflow ? kOverflow : 0));
  flags_known_ = kAllFlags;
}

void Machine::flags_of_sum(std::uint64_t a, std::uint64_t b, unsigned bytes) noexcept {
  a &= mask_of(bytes), b &= mask_of(bytes);
  const std::uint64_t sum = (a + b) & mask_of(bytes);
  flags_of_result(sum, bytes, sum < a, sign_of((a ^ sum) & (b ^ sum), bytes));
}

void Machine::flags_of_difference(std::uint64_t a, std::uint64_t b, unsigned bytes) noexcept {
  a &= mask_of(bytes), b &= mask_of(bytes);
  const std::uint64_t difference = (a - b) & mask_of(bytes);
  flags_of_result(difference, bytes, a < b, sign_of((a ^ b) & (a ^ difference), bytes));
}

void Machine::arithmetic(const Op& op) noexcept {
  const Value a = read(op.a), b = op.b.place == Place::none ? Value::of(1) : read(op.b);
  const unsigned bytes = op.a.bytes;
  const bool logic = op.kind == Kind::bit_and || op.kind == Kind::bit_or || op.kind == Kind::bit_xor || op.kind == Kind::test;
  const bool same = op.a.place == Place::general && op.b.place == Place::general && op.a.reg == op.b.reg &&
                    op.a.high_byte == op.b.high_byte;
  if (op.kind == Kind::bit_xor && same) {  // zero, whatever was there
    flags_of_result(0, bytes, false, false);
    return write(op.to, Value::of(0));
  }
  if (!a.known || !b.known) {
    const bool keeps_carry = op.kind == Kind::increment || op.kind == Kind::decrement;
    if (op.kind != Kind::complement) flags_known_ &= keeps_carry ? kCarry : 0;
    if (logic && ((a.known && !(a.bits & mask_of(bytes))) || (b.known && !(b.bits & mask_of(bytes)))) &&
        (op.kind == Kind::bit_and || op.kind == Kind::test)) {  // zero, whatever the other is
      flags_of_result(0, bytes, false, false);
      return write(op.to, Value::of(0));
    }
    return write(op.to, {});
  }
  const bool one_pointer = a.derived != b.derived;
  Value result{0, true, false};
  const std::uint8_t carry = flags_ & kCarry, carry_known = flags_known_ & kCarry;
  switch (op.kind) {
    case Kind::add: result = derive(a.bits + b.bits, one_pointer), flags_of_sum(a.bits, b.bits, bytes); break;
    case Kind::subtract: result = derive(a.bits - b.bits, a.derived && !b.derived); [[fallthrough]];
    case Kind::compare: flags_of_difference(a.bits, b.bits, bytes); break;
    case Kind::bit_and: result = derive(a.bits & b.bits, one_pointer); break;
    case Kind::bit_or: result.bits = a.bits | b.bits; break;
    case Kind::bit_xor: result.bits = a.bits ^ b.bits; break;
    case Kind::test: result.bits = a.bits & b.bits; break;
    case Kind::increment: result = derive(a.bits + 1, a.derived), flags_of_sum(a.bits, 1, bytes); break;
    case Kind::decrement: result = derive(a.bits - 1, a.derived), flags_of_difference(a.bits, 1, bytes); break;
    case Kind::negate: result.bits = -a.bits, flags_of_difference(0, a.bits, bytes); break;
    default: result.bits = ~a.bits; break;
  }
  if (logic) flags_of_result(result.bits, bytes, false, false);
  if (op.kind == Kind::increment || op.kind == Kind::decrement) {
    flags_ = static_cast<std::uint8_t>((flags_ & ~kCarry) | carry);
    flags_known_ = static_cast<std::uint8_t>((flags_known_ & ~kCarry) | carry_known);
  }
  write(op.to, result);
}

void Machine::shift(const Op& op) noexcept {
  const Value a = read(op.a), by = read(op.b);
  const unsigned bytes = op.a.bytes;
  const unsigned count = static_cast<unsigned>(by.bits) & (bytes == 8 ? 63 : 31);
  if (by.known && count == 0) return write(op.to, a);
  forget_flags();
  if (!a.known || !by.known || count >= 8 * bytes) return write(op.to, {});
  const std::uint64_t bits = a.bits & mask_of(bytes);
  std::uint64_t result;
  bool carry;
  if (op.kind == Kind::shift_left)
    result = bits << count, carry = bits >> (8 * bytes - count) & 1;
  else if (op.kind == Kind::shift_right)
    result = bits >> count, carry = bits >> (count - 1) & 1;
  else
    result = static_cast<std::uint64_t>(extend(bits, bytes) >> count), carry = extend(bits, bytes) >> (count - 1) & 1;
  const bool overflow = op.kind == Kind::shift_left    ? sign_of(result & mask_of(bytes), bytes) != carry
                        : op.kind == Kind::shift_right ? sign_of(bits, bytes)
                                                       : false;
  flags_of_result(result, bytes, carry, overflow);
  if (count != 1) flags_known_ &= static_cast<std::uint8_t>(~kOverflow);
  write(op.to, Value::of(result));
}

void Machine::multiply(const Op& op) noexcept {
  forget_flags();
  const Value a = read(op.a), rax = general_[kRax], rdx = general_[kRdx];
  const unsigned bytes = op.a.bytes;
  if (op.kind == Kind::multiply) {
    const Value b = read(op.b);
    if (!a.known || !b.known) return write(op.to, {});
    const __int128 product = static_cast<__int128>(extend(a.bits, bytes)) * extend(b.bits, bytes);
    const bool lost = product != extend(static_cast<std::uint64_t>(product), bytes);
    set_flag(kCarry, lost), set_flag(kOverflow, lost);
    return write(op.to, Value::of(static_cast<std::uint64_t>(product)));
  }
  const std::uint64_t mask = mask_of(bytes);
  std::uint64_t low = 0, high = 0;
  bool known = a.known && rax.known;
  if (op.kind == Kind::multiply_wide && known) {
    const Wide product = static_cast<Wide>(a.bits & mask) * (rax.bits & mask);
    low = static_cast<std::uint64_t>(product) & mask, high = static_cast<std::uint64_t>(product >> (8 * bytes)) & mask;
    set_flag(kCarry, high != 0), set_flag(kOverflow, high != 0);
  } else if (op.kind == Kind::divide && known) {
    known = rdx.known && (rdx.bits & mask) == 0 && (a.bits & mask) != 0;  // one word by one: no division in software
    if (known) low = (rax.bits & mask) / (a.bits & mask), high = (rax.bits & mask) % (a.bits & mask);
  }
  set_general(kRax, known ? Value::of(low) : Value{});
  set_general(kRdx, known ? Value::of(high) : Value{});
}

Value Machine::read_lane(const Operand& o, unsigned n, unsigned bytes) noexcept {
  if (o.place == Place::vector) {
    const Value v = vector_[o.reg][n];
    return bytes == 8 || !v.known ? v : Value::of(v.bits & mask_of(bytes));
  }
  if (o.place == Place::general) {
    const Value v = general_[o.reg];
    return bytes == 8 || !v.known ? v : Value::of(v.bits & mask_of(bytes));
  }
  std::uintptr_t address;
  return o.place == Place::memory && address_of(o, address) ? load(address + 8 * n, bytes) : Value{};
}

void Machine::move_vector(const Op& op) noexcept {
  std::uintptr_t address;
  const bool to_vector = op.to.place == Place::vector, to_memory = op.to.place == Place::memory;
  const auto put = [&](unsigned lane, Value v) { set_lane(op.to.reg, lane, v); };
  switch (op.kind) {
    case Kind::vector_move: {
      const Value low = read_lane(op.a, 0), high = read_lane(op.a, 1);
      if (to_vector) return put(0, low), put(1, high);
      if (to_memory && address_of(op.to, address)) store(address, 8, low), store(address + 8, 8, high);
      return;
    }
    case Kind::vector_low: case Kind::vector_low_keep: case Kind::vector_low32: {
      const unsigned bytes = op.kind == Kind::vector_low32 ? 4 : 8;
      const Value v = read_lane(op.a, 0, bytes);
      if (to_memory) {
        if (address_of(op.to, address)) store(address, bytes, v);
      } else if (!to_vector) {
        write(op.to, v);
      } else {
        put(0, v);
        if (op.kind != Kind::vector_low_keep) put(1, Value::of(0));
      }
      return;
    }
    case Kind::vector_high:
      if (to_vector) return put(1, read_lane(op.a, 0));
      if (address_of(op.to, address)) store(address, 8, read_lane(op.a, 1));
      return;
    case Kind::vector_zero: return put(0, Value::of(0)), put(1, Value::of(0));
    case Kind::vector_pair_low: case Kind::vector_pair_high: {
      const unsigned lane = op.kind == Kind::vector_pair_high;
      const Value low = read_lane(op.a, lane), high = read_lane(op.b, lane);
      return put(0, low), put(1, high);
    }
    default: {  // vector_insert
      const Value other = read_lane(op.a, 1 - op.condition), inserted = read_lane(op.b, 0);
      return put(op.condition, inserted), put(1 - op.condition, other);
    }
  }
}

void Machine::strings(const Op& op) noexcept {
  const Value count = general_[kRcx], to = general_[kRdi], from = general_[kRsi];
  const unsigned bytes = op.to.bytes;
  const bool is_copy = op.kind == Kind::copy;
  if (!count.known || !to.known || (is_copy && !from.known) || count.bits > kElements) {
    too_long_ = true;
    return;
  }
  for (std::uint64_t n = 0; n < count.bits; ++n) {
    Value v = is_copy ? load(from.bits + n * bytes, bytes) : general_[kRax];
    if (bytes < 8 && v.known) v = Value::of(v.bits & mask_of(bytes));
    store(to.bits + n * bytes, bytes, v);
  }
  set_general(kRcx, Value::of(0));
  set_general(kRdi, derive(to.bits + count.bits * bytes, to.derived));
  if (is_copy) set_general(kRsi, derive(from.bits + count.bits * bytes, from.derived));
}

void Machine::fill_bytes() noexcept {
  const Value to = general_[kRdi], byte = general_[kRsi], count = general_[kRdx];
  if (!to.known || !count.known || count.bits > 8 * kElements) return;
  const std::uint64_t bits = (byte.bits & 0xff) * 0x0101010101010101ull;
  for (std::uint64_t n = 0; n < count.bits; n += 8)
    store(to.bits + n, count.bits - n < 8 ? static_cast<unsigned>(count.bits - n) : 8, {bits, byte.known, false});
}

void Machine::copy_bytes() noexcept {
  const Value to = general_[kRdi], from = general_[kRsi], count = general_[kRdx];
  if (!to.known || !from.known || !count.known || count.bits > 8 * kElements) return;
  const bool backwards = to.bits - from.bits < count.bits;  // they overlap: the end first
  const std::uint64_t words = (count.bits + 7) / 8;
  for (std::uint64_t w = 0; w < words; ++w) {
    const std::uint64_t n = 8 * (backwards ? words - 1 - w : w);
    const unsigned bytes = count.bits - n < 8 ? static_cast<unsigned>(count.bits - n) : 8;
    store(to.bits + n, bytes, load(from.bits + n, bytes));
  }
}

void Machine::execute(const Op& op) noexcept {
  switch (op.kind) {
    case Kind::nothing: return;
    case Kind::move: return write(op.to, read(op.a));
    case Kind::move_signed: {
      const Value v = read(op.a);
      return write(op.to, v.known && op.a.bytes < 8 ? Value::of(static_cast<std::uint64_t>(extend(v.bits, op.a.bytes))) : v);
    }
    case Kind::address: {
      std::uintptr_t address;
      if (!address_of(op.a, address)) return write(op.to, {});
      const bool from_base = op.a.reg != kNoRegister && general_[op.a.reg].derived;
      const bool from_index = op.a.index != kNoRegister && op.a.scale == 1 && general_[op.a.index].derived;
      return write(op.to, derive(address, from_base != from_index));
    }
    case Kind::add: case Kind::subtract: case Kind::bit_and: case Kind::bit_or: case Kind::bit_xor: case Kind::compare:
    case Kind::test: case Kind::increment: case Kind::decrement: case Kind::negate: case Kind::complement: return arithmetic(op);
    case Kind::shift_left: case Kind::shift_right: case Kind::shift_right_signed: return shift(op);
    case Kind::multiply: case Kind::multiply_wide: case Kind::divide: return multiply(op);
    case Kind::sign_fill: {
      const Value v = read(op.a);
      return write(op.to, v.known ? Value::of(sign_of(v.bits & mask_of(op.a.bytes), op.a.bytes) ? ~0ull : 0) : Value{});
    }
    case Kind::borrow_fill: {
      const bool known = flags_known_ & kCarry, carry = flags_ & kCarry;
      forget_flags();
      if (known) flags_of_difference(0, carry, op.to.bytes);
      return write(op.to, known ? Value::of(carry ? ~0ull : 0) : Value{});
    }
    case Kind::exchange: {
      const Value a = read(op.a), to = read(op.to);
      write(op.to, a);
      return write(op.a, to);
    }
    case Kind::push: return push(read(op.a));
    case Kind::pop: return write(op.to, pop());
    case Kind::leave: {
      set_general(kRsp, general_[kRbp]);
      return set_general(kRbp, pop());
    }
    case Kind::select: {
      const int taken = holds(op.condition);
      const Value a = read(op.a), to = read(op.to);
      // The choice is not known: a pointer to the object may be lost, but never invented, unless one side is none.
      if (taken < 0) return write(op.to, {});
      return write(op.to, taken ? a : to);
    }
    case Kind::set: {
      const int taken = holds(op.condition);
      return write(op.to, taken < 0 ? Value{} : Value::of(static_cast<std::uint64_t>(taken)));
    }
    case Kind::fill: case Kind::copy: return strings(op);
    case Kind::vector_move: case Kind::vector_low: case Kind::vector_low_keep: case Kind::vector_high: case Kind::vector_low32:
    case Kind::vector_zero: case Kind::vector_pair_low: case Kind::vector_pair_high: case Kind::vector_insert:
      return move_vector(op);
    default: return forget(op);
  }
}

}  // namespace mortise::affinity
