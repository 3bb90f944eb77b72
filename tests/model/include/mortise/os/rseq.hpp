// The explorer's side of include/mortise/os/rseq.hpp: the same functions on the same bytes, each section written out in steps.
//
// A section may be left at each of its steps: when another thread of its core takes a step, and by rseq_restart_all. It then
// begins again. Its last step commits. Every thread of a core sees what ran on that core before it, as the kernel's switch
// makes sure; a drain by another core is ordered against a section only by the restart, so that a missing one is a race.
#pragma once

#include <cstddef>
#include <cstdint>

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

struct Magazine {
  static constexpr unsigned kSlots = 126;
  static constexpr std::size_t kStride = 1024;

  model_detail::PlainWord count;
  model_detail::RelaxedWord limit;
  std::byte* slot[kSlots];
  alignas(8) std::uint8_t number;

  std::uint32_t limit_now() const noexcept { return limit; }
  void set_limit(std::uint32_t blocks) noexcept { limit = blocks; }
  std::uint32_t count_now() const noexcept { return count.value; }
  void set_count(std::uint32_t blocks) noexcept { count = blocks; }
};
static_assert(sizeof(Magazine) == Magazine::kStride);

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

namespace model_detail {

/// Runs `body(magazine)` as a section of this core; it returns how many blocks are in the magazine afterwards, which commits.
template <class Body>
void section(std::byte* const* table, std::size_t bin, Body&& body, Where where = Where::current()) {
  std::jmp_buf restart;
  setjmp(restart);  // an interrupted section goes on here; nothing above the call depends on what was done since
  model::hooks::section_begin(&restart);
  // Acquire: on x86-64, where sections are, every load is one; and the magazine's address depends on it.
  model::Operation entry{
      .order = model::Order::acquire, .address = &table[rseq_index({})], .bytes = sizeof(std::byte*), .where = where};
  model::hooks::perform(entry);
  auto* const magazine = reinterpret_cast<Magazine*>(entry.result.low + bin);
  const std::uint32_t before = magazine->count.read(where);
  const std::uint32_t after = body(*magazine, before);
  if (after != before) {
    model::hooks::pause(where);  // the last moment at which it may be interrupted
    magazine->count.write(after, where);
  }
  model::hooks::section_end();
}

}  // namespace model_detail

inline unsigned magazine_take(const RseqArea&, std::byte* const* table, std::size_t bin, std::byte** out,
                              unsigned n) noexcept {
  unsigned taken = 0;
  model_detail::section(table, bin, [&](Magazine& m, std::uint32_t count) {
    taken = n < count ? n : count;
    for (unsigned i = 0; i < taken; ++i) out[i] = m.slot[count - taken + i];
    return count - taken;
  });
  return taken;
}
inline unsigned magazine_give(const RseqArea&, std::byte* const* table, std::size_t bin, std::byte* const* in,
                              unsigned n) noexcept {
  unsigned given = 0;
  model_detail::section(table, bin, [&](Magazine& m, std::uint32_t count) {
    const std::uint32_t limit = m.limit;
    for (given = 0; given < n && count < limit; ++given) m.slot[count++] = in[n - 1 - given];
    return count;
  });
  return given;
}
inline std::byte* magazine_pop(const RseqArea&, std::byte* const* table, std::size_t bin, const Magazine*& from) noexcept {
  std::byte* block = nullptr;
  model_detail::section(table, bin, [&](Magazine& m, std::uint32_t count) {
    from = &m;
    block = count ? m.slot[count - 1] : nullptr;
    return count - (count != 0);
  });
  return block;
}
inline std::byte* magazine_pop(const RseqArea& where, std::byte* const* table, std::size_t bin) noexcept {
  const Magazine* from;
  return magazine_pop(where, table, bin, from);
}
/// No scenario has a metered cache: only the names are there.
std::byte* magazine_pop_metered(const RseqArea& where, std::byte* const* table, std::size_t bin, std::size_t bytes,
                                const Magazine*& from) noexcept;
std::int64_t meter_now(const std::byte* set) noexcept;
void set_meter(std::byte* set, std::int64_t bytes) noexcept;
inline bool magazine_push(const RseqArea& where, std::byte* const* table, std::size_t bin, std::byte* block) noexcept {
  return magazine_give(where, table, bin, &block, 1) == 1;
}
inline unsigned magazine_push_each(const RseqArea& where, std::byte* const* table, std::byte* const* in, const std::uint8_t* numbers,
                                   unsigned n) noexcept {
  unsigned i = 0;
  while (i < n && magazine_push(where, table, numbers[i] * Magazine::kStride, in[i])) ++i;
  return i;
}

}  // namespace mortise::os
