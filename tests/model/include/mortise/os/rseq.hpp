// The explorer's side of include/mortise/os/rseq.hpp: the same functions on the same bytes, each section written out in steps.
//
// A section may be left at each of its steps: when another thread of its core takes a step, and by rseq_restart_all. It then
// begins again. Its last step commits. Every thread of a core sees what ran on that core before it, as the kernel's switch
// makes sure; a drain by another core is ordered against a section only by the restart, so that a missing one is a race.
#pragma once

#include <cstddef>
#include <cstdint>

#include "explorer/explorer.hpp"
#include "explorer/hooks.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

namespace model_detail {

using Where = std::source_location;

/// A plain word: races on it are reported.
struct PlainWord {
  std::uint32_t value;
  std::uint32_t read(Where where = Where::current()) const {
    model::hooks::plain_access(&value, false, where);
    return value;
  }
  void write(std::uint32_t next, Where where = Where::current()) {
    model::hooks::plain_access(&value, true, where);
    value = next;
  }
  operator std::uint32_t() const { return read(); }
  void operator=(std::uint32_t next) { write(next); }
};

/// A word that is read and written whole, in no order.
struct RelaxedWord {
  std::uint32_t value;
  std::uint32_t perform(model::Kind kind, std::uint32_t operand, Where where = Where::current()) const {
    model::Operation op{.kind = kind, .address = &value, .bytes = 4, .operand = {operand, 0}, .where = where};
    model::hooks::perform(op);
    return static_cast<std::uint32_t>(op.result.low);
  }
  operator std::uint32_t() const { return perform(model::Kind::load, 0); }
  void operator=(std::uint32_t next) { perform(model::Kind::store, next); }
};

}  // namespace model_detail

struct OwnArea {
  std::uint64_t index, section;
};
struct RseqArea {
  std::ptrdiff_t offset = 0, index_at = 0;
  bool is_kernels = false, is_concurrency_id = false;
};
inline RseqArea find_rseq_area(const OwnArea*) noexcept { return {.is_kernels = true}; }
inline RseqArea own_rseq_area(const OwnArea*) noexcept { return {}; }
inline std::uint32_t rseq_index(const RseqArea&) noexcept { return static_cast<std::uint32_t>(model::hooks::core()); }
inline bool rseq_register_restart() noexcept { return true; }
inline bool rseq_restart_all(model_detail::Where where = model_detail::Where::current()) noexcept {
  model::hooks::restart_sections(where);
  return true;
}
inline bool register_order() noexcept { return true; }
inline bool order_all_threads(model_detail::Where where = model_detail::Where::current()) noexcept {
  model::hooks::barrier(where);
  return true;
}

inline constexpr unsigned kMagazineSlots = 10, kLongMagazineSlots = 24;

template <unsigned kCount> struct Rack {
  static constexpr unsigned kColumns = kCount;
  static constexpr std::size_t kAlign = 2048;
  using Where = model_detail::Where;

  // Each row is as wide as in the shipped one, so that a table may point some columns into it.
  struct alignas(8) Count : model_detail::PlainWord {
    using PlainWord::operator=;
  } counts[kColumns];
  struct alignas(8) Limit : model_detail::RelaxedWord {
    using RelaxedWord::operator=;
  } limits[kColumns];
  std::byte** base[kColumns];
  /// How often a magazine has moved. A limit is a place among the slots that it was set for, here their number and how many.
  struct alignas(8) Moves : model_detail::RelaxedWord {
    using RelaxedWord::operator=;
  } moves[kColumns];
  static constexpr std::uint32_t kOfSlots = 1u << 16;

  static std::byte* entry(std::byte* rack, unsigned first) noexcept { return rack + first * 8; }
  static std::uint8_t number_of(const std::byte* from, unsigned n) noexcept {
    return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(from) / 8 + n);
  }
  void place(unsigned n, std::byte** slots) noexcept { base[n] = slots; }
  void move(unsigned n, std::byte** slots) noexcept {
    const std::uint32_t held = counts[n];
    for (std::uint32_t i = 0; i < held; ++i) slots[i] = base[n][i];
    counts[n] = held;  // whoever looks at it meanwhile is a race
    const std::uint32_t blocks = limit_now(n);
    base[n] = slots;
    moves[n] = moves[n].value + 1;
    set_limit(n, blocks);
  }
  std::byte** slots(unsigned n) noexcept { return base[n]; }
  std::uint32_t limit_now(unsigned n) const noexcept { return limits[n] % kOfSlots; }
  void set_limit(unsigned n, std::uint32_t blocks) noexcept { limits[n] = moves[n] * kOfSlots + blocks; }
  std::uint32_t count_now(unsigned n) const noexcept { return counts[n].value; }
  std::uint32_t count(unsigned n) const noexcept { return counts[n]; }
  void set_count(unsigned n, std::uint32_t blocks) noexcept { counts[n] = blocks; }

  static unsigned take(const RseqArea&, std::byte* const* table, std::size_t number, std::byte** out, unsigned n) noexcept {
    unsigned taken = 0;
    section(table, number, [&](Rack& r, std::uint32_t count) {
      taken = n < count ? n : count;
      for (unsigned i = 0; i < taken; ++i) out[i] = r.base[number][count - taken + i];
      return count - taken;
    });
    return taken;
  }
  static unsigned give(const RseqArea&, std::byte* const* table, std::size_t number, std::byte* const* in, unsigned n) noexcept {
    unsigned given = 0;
    section(table, number, [&](Rack& r, std::uint32_t count) {
      const std::uint32_t end = r.limits[number], limit = end % kOfSlots;
      model::require(end / kOfSlots == r.moves[number].value, "a limit of slots that were left");
      for (given = 0; given < n && count < limit; ++given) r.base[number][count++] = in[n - 1 - given];
      return count;
    });
    return given;
  }
  static std::byte* pop(const RseqArea&, std::byte* const* table, std::size_t number, const std::byte*& from) noexcept {
    std::byte* block = nullptr;
    section(table, number, [&](Rack& r, std::uint32_t count) {
      from = reinterpret_cast<const std::byte*>(&r);
      block = count ? r.base[number][count - 1] : nullptr;
      return count - (count != 0);
    });
    return block;
  }
  static std::byte* pop(const RseqArea& where, std::byte* const* table, std::size_t number) noexcept {
    const std::byte* from;
    return pop(where, table, number, from);
  }
  static bool push(const RseqArea& where, std::byte* const* table, std::size_t number, std::byte* block) noexcept {
    return give(where, table, number, &block, 1) == 1;
  }
  static unsigned push_each(const RseqArea& where, std::byte* const* table, std::byte* const* in, const std::uint8_t* numbers,
                            unsigned n) noexcept {
    unsigned i = 0;
    while (i < n && push(where, table, numbers[i], in[i])) ++i;
    return i;
  }
  /// No scenario has a metered cache: only the names are there.
  static std::byte* pop_metered(const RseqArea& where, std::byte* const* table, std::size_t number, std::size_t bytes,
                                const std::byte*& from) noexcept;
  static std::int64_t meter_now(const std::byte* from) noexcept;
  static void set_meter(std::byte* from, std::int64_t bytes) noexcept;

 private:
  /// Runs `body(rack, count)`, the rack as the table's entry gives it, as a section of this core; it returns how many blocks there are
  /// afterwards, which commits.
  template <class Body>
  static void section(std::byte* const* table, std::size_t number, Body&& body, Where where = Where::current()) {
    std::jmp_buf restart;
    setjmp(restart);  // an interrupted section goes on here; nothing above the call depends on what was done since
    model::hooks::section_begin(&restart);
    // Acquire: on x86-64, where sections are, every load is one; and the rack's address depends on it.
    model::Operation entry{
        .order = model::Order::acquire, .address = &table[rseq_index({})], .bytes = sizeof(std::byte*), .where = where};
    model::hooks::perform(entry);
    auto& rack = *reinterpret_cast<Rack*>(entry.result.low);
    const std::uint32_t before = rack.counts[number].read(where);
    const std::uint32_t after = body(rack, before);
    if (after != before) {
      model::hooks::pause(where);  // the last moment at which it may be interrupted
      rack.counts[number].write(after, where);
    }
    model::hooks::section_end();
  }
};

}  // namespace mortise::os
