// Call frame information: where, after a call returns, the caller's frame and its saved registers lie, as the compiler wrote it
// down for exceptions. One rule a return address; no frame pointers are needed.
//
//   .eh_frame_hdr  ──halves──►  entry of the function  ──its rows up to the call──►  CFA = rsp or rbp + offset
//                                                                                    rbx rbp r12-r15 at CFA - ...
// x86-64: other processors have no rule that is known. Progress: wait-free, O(log entries + length of the function's own table).
// Source: DWARF 5, 6.4; the Linux Standard Base's .eh_frame_hdr, whose table is searched by halves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mortise/core/inline.hpp"

namespace mortise::os {

inline constexpr unsigned kCalleeSaved = 6;  ///< rbx rbp r12 r13 r14 r15
inline constexpr unsigned kRbpOfCalleeSaved = 1;

struct CodeRange {
  std::uintptr_t first = 0, last = 0;
  bool holds(std::uintptr_t a) const { return a - first < last - first; }
};

/// The canonical frame address is `cfa_offset` from the stack pointer after the return, or from rbp; the function's own return
/// address lies in the word below it.
struct FrameRule {
  bool is_known = false;             ///< false: no information, a signal's frame, or one that takes an expression
  bool is_outermost = false;         ///< nobody called this function; not `is_known` then
  bool from_rbp = false;
  std::int32_t cfa_offset = 0;
  std::int16_t saved_at[kCalleeSaved] = {};  ///< from the frame address; 0 when the register still holds its value
  CodeRange function;                ///< the code that the rule's entry covers
};

namespace cfi {
/// DWARF's numbers of registers.
inline constexpr unsigned kRbp = 6, kRsp = 7, kReturnAddress = 16;
constexpr int callee_saved_index(std::uint64_t dwarf_register) noexcept {
  switch (dwarf_register) {
    case 3: return 0;
    case 6: return 1;
    case 12: case 13: case 14: case 15: return static_cast<int>(dwarf_register) - 10;
    default: return -1;
  }
}

/// Reads the table's encodings. Past its end it gives zeros.
class Cursor {
 public:
  Cursor(const std::uint8_t* at, const std::uint8_t* end) noexcept : at_(at), end_(end) {}
  bool is_at_end() const noexcept { return at_ >= end_; }
  const std::uint8_t* place() const noexcept { return at_; }
  void go_to(const std::uint8_t* at) noexcept { at_ = at; }
  void skip(std::uint64_t n) noexcept { at_ = n > static_cast<std::uint64_t>(end_ - at_) ? end_ : at_ + n; }

  template <class T> T fixed() noexcept {
    T value{};
    if (static_cast<std::size_t>(end_ - at_) < sizeof value) at_ = end_;
    else {
      std::memcpy(&value, at_, sizeof value);
      at_ += sizeof value;
    }
    return value;
  }
  std::uint64_t uleb() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !is_at_end(); shift += 7) {
      const std::uint8_t byte = *at_++;
      if (shift < 64) value |= std::uint64_t{byte & 127u} << shift;
      if (!(byte & 128)) break;
    }
    return value;
  }
  std::int64_t sleb() noexcept {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte = 0;
    do {
      if (is_at_end()) return 0;
      byte = *at_++;
      if (shift < 64) value |= std::uint64_t{byte & 127u} << shift;
      shift += 7;
    } while (byte & 128);
    if (shift < 64 && byte & 64) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  const char* string() noexcept {
    const auto* s = reinterpret_cast<const char*>(at_);
    while (!is_at_end() && *at_) ++at_;
    skip(1);
    return s;
  }
  /// A pointer in one of DW_EH_PE's encodings; indirect ones are not followed.
  std::uint64_t encoded(std::uint8_t encoding, std::uint64_t data_base) noexcept {
    if (encoding == 0xff) return 0;
    const auto here = reinterpret_cast<std::uint64_t>(at_);
    std::uint64_t value = 0;
    switch (encoding & 15) {
      case 0: case 4: case 12: value = fixed<std::uint64_t>(); break;
      case 1: value = uleb(); break;
      case 2: value = fixed<std::uint16_t>(); break;
      case 3: value = fixed<std::uint32_t>(); break;
      case 9: value = static_cast<std::uint64_t>(sleb()); break;
      case 10: value = static_cast<std::uint64_t>(std::int64_t{fixed<std::int16_t>()}); break;
      case 11: value = static_cast<std::uint64_t>(std::int64_t{fixed<std::int32_t>()}); break;
      default: return 0;
    }
    if (!value) return 0;
    if ((encoding & 0x70) == 0x10) value += here;
    if ((encoding & 0x70) == 0x30) value += data_base;
    return value;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

/// An entry for one function and what it shares with others.
struct Entry {
  Cursor common{nullptr, nullptr};   ///< instructions of the common part
  Cursor own{nullptr, nullptr};      ///< and of this function's
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint8_t pointer_encoding = 0;
  bool is_signal_frame = false;
  CodeRange function;
};

inline bool read_common(const std::uint8_t* at, Entry& e, bool& has_data) noexcept {
  std::uint32_t length;
  std::memcpy(&length, at, sizeof length);
  Cursor c(at + 8, at + 4 + length);
  if (length == 0xffffffff) return false;
  c.skip(1);  // version
  const char* augmentation = c.string();
  e.code_factor = c.uleb();
  e.data_factor = c.sleb();
  c.uleb();  // the return address's column
  has_data = augmentation[0] == 'z';
  if (!has_data && augmentation[0]) return false;
  if (has_data) {
    const std::uint64_t size = c.uleb();
    const std::uint8_t* const end = c.place() + size;
    for (const char* a = augmentation + 1; *a; ++a) {
      if (*a == 'R') e.pointer_encoding = c.fixed<std::uint8_t>();
      else if (*a == 'L') c.skip(1);
      else if (*a == 'P') c.encoded(c.fixed<std::uint8_t>() & 0x7f, 0);
      else if (*a == 'S') e.is_signal_frame = true;
      else break;
    }
    c.go_to(end);
  }
  e.common = c;
  return true;
}

/// The entry that covers `pc`, found by halves in the sorted table of .eh_frame_hdr.
inline bool find_entry(const std::uint8_t* header, std::uintptr_t pc, Entry& e) noexcept {
  if (!header || header[0] != 1) return false;
  const auto base = reinterpret_cast<std::uint64_t>(header);
  Cursor c(header + 4, header + 64);
  c.encoded(header[1], base);
  const std::uint64_t count = c.encoded(header[2], base);
  constexpr std::uint8_t kSortedOffsets = 0x3b;  // 32-bit, signed, from the header
  if (header[3] != kSortedOffsets || !count) return false;
  struct Row {
    std::int32_t start, entry;
  };
  const auto* row = reinterpret_cast<const Row*>(c.place());
  const auto start_of = [&](std::uint64_t i) { return base + static_cast<std::uint64_t>(std::int64_t{row[i].start}); };
  std::uint64_t low = 0, high = count;
  while (high - low > 1) (start_of((low + high) / 2) <= pc ? low : high) = (low + high) / 2;
  if (start_of(low) > pc) return false;

  const std::uint8_t* const at = header + row[low].entry;
  std::uint32_t length, back;
  std::memcpy(&length, at, sizeof length);
  std::memcpy(&back, at + 4, sizeof back);
  bool has_data = false;
  if (length == 0xffffffff || !read_common(at + 4 - back, e, has_data)) return false;
  Cursor own(at + 8, at + 4 + length);
  e.function.first = own.encoded(e.pointer_encoding, base);
  e.function.last = e.function.first + own.encoded(e.pointer_encoding & 15, 0);
  if (has_data) {
    const std::uint64_t size = own.uleb();  // in two steps: `skip` must see the place behind the number
    own.skip(size);
  }
  e.own = own;
  return e.function.holds(pc);
}

/// The rows of the virtual unwind table, one after the other.
struct Row {
  std::uint64_t cfa_register = kRsp;
  std::int64_t cfa_offset = 8;
  bool takes_expression = false;
  bool is_outermost = false;
  std::int64_t saved_at[kCalleeSaved] = {};
};

class Machine {
 public:
  Machine(const Entry& e, std::uintptr_t target) noexcept : e_(e), target_(target) {}

  /// False for an instruction that is not known.
  bool run(Row& result) noexcept {
    place_ = 0;
    if (!run(e_.common, false)) return false;
    initial_ = row_;
    place_ = e_.function.first;
    if (!run(e_.own, true)) return false;
    result = row_;
    return true;
  }

 private:
  void save(std::uint64_t r, std::int64_t at) noexcept {
    if (const int i = callee_saved_index(r); i >= 0) row_.saved_at[i] = at;
  }
  void restore(std::uint64_t r) noexcept {
    if (const int i = callee_saved_index(r); i >= 0) row_.saved_at[i] = initial_.saved_at[i];
  }
  /// A rule that cannot be followed is only in the way when it is asked for.
  void lose(std::uint64_t r) noexcept {
    if (const int i = callee_saved_index(r); i >= 0) row_.saved_at[i] = 0;
    if (r == kRbp) row_.takes_expression = true;
    if (r == kReturnAddress) row_.is_outermost = true;
  }

  bool run(Cursor c, bool moves) noexcept {
    while (!c.is_at_end()) {
      const auto op = c.fixed<std::uint8_t>();
      const std::uint64_t low = op & 0x3f;
      if (op >> 6 == 1) place_ += low * e_.code_factor;
      else if (op >> 6 == 2) save(low, static_cast<std::int64_t>(c.uleb()) * e_.data_factor);
      else if (op >> 6 == 3) restore(low);
      else if (!step(op, c)) return false;
      if (moves && place_ > target_) return true;
    }
    return true;
  }
  /// DW_CFA_...; a step forward past the target ends the program before the next row is changed.
  bool step(std::uint8_t op, Cursor& c) noexcept {
    std::uint64_t r;
    switch (op) {
      case 0x00: return true;                                                        // nop
      case 0x01: place_ = c.encoded(e_.pointer_encoding, 0); return true;            // set_loc
      case 0x02: place_ += c.fixed<std::uint8_t>() * e_.code_factor; return true;    // advance_loc1
      case 0x03: place_ += c.fixed<std::uint16_t>() * e_.code_factor; return true;   // advance_loc2
      case 0x04: place_ += c.fixed<std::uint32_t>() * e_.code_factor; return true;   // advance_loc4
      case 0x05: r = c.uleb(); save(r, static_cast<std::int64_t>(c.uleb()) * e_.data_factor); return true;  // offset_extended
      case 0x06: restore(c.uleb()); return true;                                     // restore_extended
      case 0x07: lose(c.uleb()); return true;                                        // undefined
      case 0x08: r = c.uleb(); save(r, 0); return true;                              // same_value
      case 0x09: r = c.uleb(); c.uleb(); lose(r); return true;                       // register
      case 0x0a: if (depth_ < kDepth) stack_[depth_++] = row_; return true;          // remember_state
      case 0x0b: if (depth_) row_ = stack_[--depth_]; return true;                   // restore_state
      case 0x0c: r = c.uleb(); set_cfa(r, static_cast<std::int64_t>(c.uleb())); return true;                // def_cfa
      case 0x0d: row_.cfa_register = c.uleb(); return true;                          // def_cfa_register
      case 0x0e: row_.cfa_offset = static_cast<std::int64_t>(c.uleb()); return true; // def_cfa_offset
      case 0x0f: row_.takes_expression = true; skip_block(c); return true;           // def_cfa_expression
      case 0x10: case 0x16: r = c.uleb(); skip_block(c); lose(r); return true;       // expression, val_expression
      case 0x11: r = c.uleb(); save(r, c.sleb() * e_.data_factor); return true;      // offset_extended_sf
      case 0x12: r = c.uleb(); set_cfa(r, c.sleb() * e_.data_factor); return true;   // def_cfa_sf
      case 0x13: row_.cfa_offset = c.sleb() * e_.data_factor; return true;           // def_cfa_offset_sf
      case 0x2e: c.uleb(); return true;                                              // GNU_args_size
      default: return false;
    }
  }
  void set_cfa(std::uint64_t r, std::int64_t offset) noexcept {
    row_.cfa_register = r;
    row_.cfa_offset = offset;
    row_.takes_expression = false;
  }
  static void skip_block(Cursor& c) noexcept {
    const std::uint64_t size = c.uleb();
    c.skip(size);
  }

  static constexpr unsigned kDepth = 8;
  const Entry& e_;
  std::uintptr_t target_;
  std::uintptr_t place_ = 0;
  Row row_, initial_, stack_[kDepth];
  unsigned depth_ = 0;
};

}  // namespace cfi

/// The rule for a call that returns to `return_address`, by the unwind table at `header` (.eh_frame_hdr, or null) of the module that
/// it lies in, which must stay loaded meanwhile.
MORTISE_COLD inline FrameRule frame_rule(const std::uint8_t* header, std::uintptr_t return_address) noexcept {
  const std::uintptr_t call = return_address - 1;  // the rule of the call, not of what follows it
  FrameRule rule;
  cfi::Entry e;
  cfi::Row row;
  if (!cfi::find_entry(header, call, e) || e.is_signal_frame || !cfi::Machine(e, call).run(row)) return rule;
  rule.function = e.function;
  rule.is_outermost = row.is_outermost;
  if (row.is_outermost || row.takes_expression || (row.cfa_register != cfi::kRsp && row.cfa_register != cfi::kRbp)) return rule;
  constexpr std::int64_t kFrameMax = 1 << 20;
  if (row.cfa_offset < 8 || row.cfa_offset > kFrameMax) return rule;
  rule.from_rbp = row.cfa_register == cfi::kRbp;
  rule.cfa_offset = static_cast<std::int32_t>(row.cfa_offset);
  for (unsigned i = 0; i < kCalleeSaved; ++i) {
    if (row.saved_at[i] > 0 || row.saved_at[i] < INT16_MIN) return rule;
    rule.saved_at[i] = static_cast<std::int16_t>(row.saved_at[i]);
  }
  rule.is_known = true;
  return rule;
}

/// The code of the function (or of its cold part) that `address` lies in; empty when unknown.
inline CodeRange function_of(const std::uint8_t* header, std::uintptr_t address) noexcept {
  cfi::Entry e;
  return cfi::find_entry(header, address, e) ? e.function : CodeRange{};
}

}  // namespace mortise::os
