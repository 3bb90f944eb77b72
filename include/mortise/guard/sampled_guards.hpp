// A few blocks, drawn at random, live alone on a page between two that nobody may touch: whatever is done wrong to one of these, reads
// included, is caught at that very instruction, with the places of its allocation and release.
//
//   ┌ ─ ─ ─ ─ ┬──────────────┬ ─ ─ ─ ─ ┬──────────────┬ ─ ─ ─ ─ ┐
//     no access│ slot 0   ▒▒▒▒│ no access│▒▒▒▒   slot 1 │ no access     the block ends, or begins, where access ends
//   └ ─ ─ ─ ─ ┴──────────────┴ ─ ─ ─ ─ ┴──────────────┴ ─ ─ ─ ─ ┘
//
// One in kOneIn allocations, on average and at random, takes the slot that has been free longest; a slot whose block was released is
// without access until it is taken again. Over many runs or machines a mistake that happens once a run is found with a chance of
// 1 in kOneIn each time, at a cost that nobody notices: three instructions an allocation. A sample takes some 10 us (its system calls,
// and what they make the processor forget), so a thread rests kPauseMs after each: one that allocates faster than kOneIn blocks in that
// time is sampled less often, and never pays more than a few thousandths of its time.
//
// The slots are one large block of what is below, so a pointer into them needs no test of its own on the hit path of free.
// When the OnFault slot goes on, a wrong release does not happen. An access that the page forbids always ends the program.
// Bound: O(1); four system calls a sampled block at most. Progress: a sampled call blocks; others as below.
// Source: [Serebryany23] GWP-ASan. Placement: on top.
#pragma once

#include <algorithm>
#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/clock.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/guards.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kOneIn` (1..1000000000): one allocation in so many is guarded, on average.
/// `kSlots` (2..32768): so many blocks are guarded at a time, the released ones included.
/// `kPauseMs` (0..1000000): no thread has two blocks guarded within so many milliseconds; the clock counts in the kernel's ticks.
/// `OnFault`: what comes after a wrong release.
template <unsigned kOneIn = 20000, unsigned kSlots = 128, unsigned kPauseMs = 16, OnFaultPolicy OnFault = on_fault::Configured>
struct SampledGuards {
  static_assert(kOneIn >= 1 && kSlots >= 2, "at least one block in a while, and two slots to alternate");
  static constexpr const char* kName = "SampledGuards";
  static constexpr const char* kWhat = "one block in many lives alone between pages without access";
  static constexpr const char* kNeeds = "a heap below that finds blocks by pointer, not by what lies before it (SizedHeader)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("OnFault", OnFault::kName).number("one_in", kOneIn).number("slots", kSlots);
    out.number("pause_ms", kPauseMs);
  }

  template <Locates Below> requires (!facts_of<Below>().has_headers) class Over : public Locked<Below, FutexLock> {
    static constexpr bool kBelowHitsAlone = requires { requires Below::kHitsAlone; };

   public:
    static constexpr bool kTakesUnsized = true;
    static constexpr BlockFacts kFacts = facts_of<Below>().watched().with(Spans::none);
    struct Thread {
      std::int32_t left = 0;      ///< allocations until the next one that is guarded
      std::uint64_t random = 0;   ///< 0: has not begun to count
      std::uint64_t last_ms = 0;  ///< when a block of it was guarded last; 0: never
      std::int32_t* countdown = nullptr;  ///< what is counted down instead of `left`, where it lies closer to the caller
      [[no_unique_address]] typename Below::Thread below{};
      static constexpr bool kNeedsNoMaking = std::is_empty_v<typename Below::Thread>;
      static constexpr bool kRefusesAsZero = requires { requires Below::Thread::kRefusesAsZero; };
    };

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept requires Hits<Below> {
      if (--t.left < 0) [[unlikely]] return {};
      return this->below.allocate_hit(t.below, r);
    }
    /// The same by a countdown that the caller keeps, and has told the thread's record of. The record is not looked at.
    MORTISE_HOT Block allocate_hit_counted(Thread& nobody, std::int32_t& left, Request r) noexcept requires(kBelowHitsAlone) {
      if (--left < 0) [[unlikely]] return {};
      return this->below.allocate_hit(nobody.below, r);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept requires Hits<Below> { return this->below.release_hit(t.below, b); }

    MORTISE_HOT bool release_hit_of_size(Thread& t, Block b, std::size_t n) noexcept requires HitsBySize<Below> {
      return this->below.release_hit_of_size(t.below, b, n);
    }

    MORTISE_HOT Tried release_at(Thread& t, std::byte* p) noexcept requires requires(Below& h) { h.release_at(t.below, p); } {
      return this->below.release_at(t.below, p);
    }
    MORTISE_HOT Tried release_at_of_size(Thread& t, std::byte* p, std::size_t n) noexcept
        requires requires(Below& h) { h.release_at_of_size(t.below, p, n); } {
      return this->below.release_at_of_size(t.below, p, n);
    }
    void release_checked(Thread& t, std::byte* p) noexcept requires requires(Below& h) { h.release_checked(t.below, p); } {
      this->below.release_checked(t.below, p);
    }

    MORTISE_HOT bool resize_hit(Block b, std::size_t n) noexcept requires requires(Below& h) { h.resize_hit(b, n); } {
      return this->below.resize_hit(b, n);
    }

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      if constexpr (!Hits<Below>) --t.left;
      if (left_of(t) <= 0) [[unlikely]]
        if (const Block b = draw(t, r, call_site())) return b;
      return this->below.allocate(t.below, r);
    }
    MORTISE_HOT void release(Thread& t, Block b) noexcept {
      if (is_guarded(b.ptr)) [[unlikely]] return retire(b, call_site());
      if constexpr (!kTakesUnsizedBlocks<Below>)
        if (b.is_unsized() && b.size_class == kNoClass) b = this->below.measure(b);
      this->below.release(t.below, b);
    }
    Block measure(Block b) noexcept {
      if (!is_guarded(b.ptr)) return this->below.measure(b);
      Crime crime;
      {
        Held held(this->lock_);
        const Slot& slot = slots_[slot_of(b.ptr)];
        if (slot.is_held && slot.ptr == b.ptr) return {b.ptr, slot.size};
        crime = wrong_release(slot, b, nullptr);
      }
      OnFault::answer(crime);
      return {b.ptr, 0};
    }

    /// A guarded block's size and alignment are known to the byte; all others are asked below.
    MORTISE_HOT void check_size(std::byte* p, std::size_t size, std::size_t align) noexcept requires ChecksSizes<Below> {
      if (!is_guarded(p)) return this->below.check_size(p, size, align);
      const Block b = measure({p, 0});
      if (b.is_unsized()) return;
      const bool is_of_size = size == 0 || size == b.size;
      if (is_of_size && align <= slots_[slot_of(p)].align) return;
      OnFault::answer({.fault = is_of_size ? Fault::align_mismatch : Fault::size_mismatch, .block = b,
                       .allocated_at = slots_[slot_of(p)].allocated_at, .seen_at = call_site()});
    }

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept requires Batches<Below> {
      return this->below.allocate_batch(t.below, c, out, n);
    }
    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept requires Batches<Below> {
      this->below.release_batch(t.below, c, in, n);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return is_guarded(b.ptr) ? Block{} : this->below.resize_in_place(t.below, b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return is_guarded(b.ptr) ? Block{} : this->below.resize_by_moving(t.below, b, n);
    }
    std::size_t trim(Thread& t) noexcept { return trim_below(this->below, t.below); }
    void attach(Thread& t) noexcept { attach_below(this->below, t.below); }
    void detach(Thread& t) noexcept { detach_below(this->below, t.below); }
    void check_waiting(Thread& t) noexcept requires ChecksWaiting<Below> { this->below.check_waiting(t.below); }
    /// Guarded blocks are looked at where they end, as when they are released.
    std::size_t check_all(Thread& t) noexcept requires ChecksAll<Below> {
      std::size_t broken = this->below.check_all(t.below);
      for (const Slot& slot : slots_) {
        Crime crime;
        {
          Held held(this->lock_);
          if (!slot.is_held || is_canary(slot.ptr + slot.size, end_of(slot))) continue;
          crime = {.fault = Fault::tail_overwritten, .block = {slot.ptr, slot.size}, .allocated_at = slot.allocated_at};
        }
        ++broken;
        OnFault::answer(crime);
      }
      return broken;
    }

    bool start(const os::Facts& facts) noexcept {
      page_ = facts.page_bytes;
      return start_below(this->below, facts);
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      if (!bytes_) return;
      u.live -= bytes_ - held_bytes_;
      u.cached += bytes_ - held_bytes_;
    }

    /// What an access to `p` that the page forbade was about. Async-signal-safe; takes no lock.
    bool explain(const std::byte* p, Crime& crime) noexcept {
      if (!is_guarded(p)) {
        if constexpr (Explains<Below>) return this->below.explain(p, crime);
        return false;
      }
      const std::size_t page = static_cast<std::size_t>(p - region_) / page_;
      // Between two slots the nearer one is meant, behind its end or before its start; the other one where it has had no block yet.
      const bool is_second_half = static_cast<std::size_t>(p - region_) % page_ >= page_ / 2;
      const std::size_t behind = std::min<std::size_t>(page / 2, kSlots - 1);
      const std::size_t before = page % 2 ? behind : std::min<std::size_t>(page / 2 - (page > 0), kSlots - 1);
      const std::size_t near = is_second_half ? behind : before;
      const Slot& slot = slots_[slots_[near].ptr ? near : behind + before - near];
      crime = {.fault = slot.is_held ? Fault::out_of_bounds : Fault::use_after_free, .block = {slot.ptr, slot.size},
               .allocated_at = slot.allocated_at, .freed_at = slot.is_held ? nullptr : slot.freed_at};
      return slot.ptr != nullptr;
    }

   private:
    struct Slot {
      std::byte* ptr;
      std::size_t size;
      std::size_t align;
      const void* allocated_at;
      const void* freed_at;
      bool is_held;
    };
    static constexpr std::byte kCanary{0xC5};

    static std::int32_t& left_of(Thread& t) noexcept { return t.countdown ? *t.countdown : t.left; }

    /// Without the lock: whoever asks about a guarded block got it after both were written.
    MORTISE_HOT bool is_guarded(const std::byte* p) const noexcept {
      return static_cast<std::size_t>(p - glance(region_)) < glance(bytes_);
    }
    std::size_t slot_of(const std::byte* p) const noexcept {
      const std::size_t page = static_cast<std::size_t>(p - region_) / page_;
      return page / 2 < kSlots ? page / 2 : kSlots - 1;
    }
    std::byte* page_of(std::size_t slot) const noexcept { return region_ + (2 * slot + 1) * page_; }

    /// The countdown has ended: starts the next one and serves this request from a slot, if one fits and is free.
    MORTISE_COLD Block draw(Thread& t, Request r, const void* site) noexcept {
      const bool first = !t.random;
      if (first) t.random = os::entropy() | 1;
      t.random ^= t.random << 13;
      t.random ^= t.random >> 7;
      t.random ^= t.random << 17;
      const std::uint64_t random = t.random >> 31;
      left_of(t) = kOneIn > 1 ? static_cast<std::int32_t>(1 + random % (2 * std::uint64_t{kOneIn})) : 0;
      if ((first && kOneIn > 1) || r.size > page_ || r.align > page_) return {};
      if constexpr (kPauseMs > 0) {
        const std::uint64_t now = os::now_ms();
        if (t.last_ms && now - t.last_ms < kPauseMs) return {};
        t.last_ms = now;
      }
      Held held(this->lock_);
      if (!region_ && !make_region(t)) return {};
      if (free_count_ == 0) return {};
      const std::size_t i = free_[oldest_];
      if (!guards_.remove(page_of(i), page_)) return {};
      oldest_ = (oldest_ + 1) % kSlots;
      --free_count_;
      const std::size_t n = r.size ? r.size : 1;
      const std::size_t align = r.align > kMinAlign ? r.align : kMinAlign;
      std::byte* const p = random >> 32 ? page_of(i) : page_of(i) + (page_ - round_up(n, align));
      if (r.zeroed) std::memset(p, 0, n);  // the first time a slot is what the heap below left there
      std::memset(p + n, static_cast<int>(kCanary), static_cast<std::size_t>(page_of(i) + page_ - (p + n)));
      slots_[i] = {p, n, align, site, nullptr, true};
      held_bytes_ += n;
      return {p, n};
    }
    /// The fault is answered without the lock: what that calls may come back here.
    MORTISE_COLD void retire(Block b, const void* site) noexcept {
      Slot& slot = slots_[slot_of(b.ptr)];
      Crime crime;
      {
        Held held(this->lock_);
        const bool is_right = slot.is_held && slot.ptr == b.ptr;
        if (is_right && is_canary(slot.ptr + slot.size, end_of(slot))) return take_back(slot, site);
        crime = wrong_release(slot, b, site);
        if (is_right) crime.fault = Fault::tail_overwritten, crime.block.size = slot.size;
      }
      OnFault::answer(crime);
      Held held(this->lock_);
      if (crime.fault == Fault::tail_overwritten && slot.is_held && slot.ptr == b.ptr) take_back(slot, site);
    }
    void take_back(Slot& slot, const void* site) noexcept {
      const auto i = static_cast<std::size_t>(&slot - slots_);
      slot.is_held = false;
      slot.freed_at = site;
      held_bytes_ -= slot.size;
      guards_.set(page_of(i), page_);
      free_[(oldest_ + free_count_++) % kSlots] = static_cast<std::uint16_t>(i);
    }
    const std::byte* end_of(const Slot& slot) const noexcept { return page_of(static_cast<std::size_t>(&slot - slots_)) + page_; }
    /// [at, end), where `end` is a page's.
    static bool is_canary(const std::byte* at, const std::byte* end) noexcept {
      unsigned wrong = 0;
      for (; !is_aligned(at, sizeof(std::uint64_t)); ++at) wrong |= *at != kCanary;
      std::uint64_t word, others = 0;
      for (; at < end; at += sizeof word) {
        std::memcpy(&word, at, sizeof word);
        others |= word ^ std::uint64_t{0x0101010101010101} * static_cast<unsigned>(kCanary);
      }
      return !wrong && !others;
    }
    static Crime wrong_release(const Slot& slot, Block b, const void* site) noexcept {
      const bool twice = !slot.is_held && slot.ptr == b.ptr;
      return {.fault = twice ? Fault::double_free : Fault::invalid_free, .block = {b.ptr, twice ? slot.size : 0},
              .allocated_at = slot.allocated_at, .freed_at = slot.freed_at, .seen_at = site};
    }
    bool make_region(Thread& t) noexcept {
      std::size_t bytes = (2 * kSlots + 1) * page_;
      if constexpr (Classed<Below>)  // of a size class, a slot's pointer would be taken for a block of it
        if (bytes <= Below::Classes::kMaxBytes) bytes = round_up(Below::Classes::kMaxBytes + 1, page_);
      const Block b = this->below.allocate(t.below, {.size = bytes, .align = page_});
      if (!b) return false;
      if (!is_aligned(b.ptr, page_) || !guards_.set(b.ptr, bytes)) {
        this->below.release(t.below, b);
        return false;
      }
      for (unsigned i = 0; i < kSlots; ++i) free_[i] = static_cast<std::uint16_t>(i);
      free_count_ = kSlots;
      show(region_, b.ptr);
      show(bytes_, bytes);
      return true;
    }

    std::byte* region_ = nullptr;
    std::size_t bytes_ = 0, held_bytes_ = 0;
    Preset<4_KiB> page_;
    os::Guards guards_;
    unsigned oldest_ = 0, free_count_ = 0;
    std::uint16_t free_[kSlots] = {};
    Slot slots_[kSlots] = {};
  };
};

}  // namespace mortise
