// A limit on what a heap takes from its source: a hard end of memory that is not the machine's.
//
//   allocate ── taken + size within the limit? ── below ── counted
//                     │ no: is less than the limit in memory? the source asks the kernel
//                     │        yes, and no more than an eighth beyond it is taken ── below ── counted
//                     └ no: an empty block, as if the source were exhausted
//
// What is taken is what the program may touch. Some of it nobody ever touches: the ends of blocks that were rounded to a size
// class, blocks of slabs that were never asked for. So at the limit the kernel's word counts, a 128th of the limit at a time. A program
// that touches late what it got early can bring in at most that eighth more.
//
// Progress: as below; counting is one atomic addition. At the limit a lock, and the kernel's work, O(pages). Placement: directly above
// a source, so that it counts what the system gives; a stack above it reacts as to a machine without memory. Above a cache it counts
// blocks instead.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/source/shared_heap.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

inline constexpr std::size_t kNoLimit = 16_TiB;  ///< more than any window of addresses holds

/// `kBytes` (64 KiB..16 TiB): the limit until `set_limit_bytes` changes it; blocks that are out already stay out.
template <std::size_t kBytes = 16_TiB> struct LimitedTo {
  static constexpr const char* kName = "LimitedTo";
  static constexpr const char* kWhat = "refuses what would go beyond a number of bytes";
  static constexpr const char* kNeeds = "any heap below";
  template <class Out> static void describe(Out& out) {
    if constexpr (kBytes == kNoLimit) out.layer(kName, kWhat).policy("limit", "at run time");
    else out.layer(kName, kWhat).number("limit_bytes", kBytes);
  }

  /// Forwards what PageIndex wants of a source, where the source has it.
  template <Heap Below> class Facts : public Locked<Below, FutexLock> {};
  template <Contiguous Below> class Facts<Below> : public Locked<Below, FutexLock> {
   public:
    static constexpr std::size_t kGranule = Below::kGranule;
    static constexpr std::size_t kReach = Below::kReach;
    std::byte* origin() noexcept { return this->below.origin(); }
    std::byte* side(std::size_t n) noexcept { return this->below.side(n); }
    bool back_side(std::byte* at, std::size_t n) noexcept { return this->below.back_side(at, n); }
  };

  /// The same for SubHeaps, whose source has a slot of addresses for each of them.
  template <Slotted Below> class Facts<Below> : public Locked<Below, FutexLock> {
   public:
    static constexpr std::size_t kGranule = Below::kGranule;
    static constexpr std::size_t kReach = Below::kReach;
    static constexpr unsigned kSlotCount = Below::kSlotCount;
    static constexpr std::size_t kSlotBytes = Below::kSlotBytes;
    std::byte* origin() const noexcept { return this->below.origin(); }
    std::byte* slot_origin(unsigned slot) noexcept { return this->below.slot_origin(slot); }
  };

  template <Heap Below> class Over : public Facts<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr bool kTakesUnsized = Locates<Below>;

    Block allocate(Thread& t, Request r) noexcept {
      return counted(r.size, [&] { return this->below.allocate(t, r); });
    }
    Block allocate_in(Thread& t, unsigned slot, Request r) noexcept requires Slotted<Below> {
      return counted(r.size, [&] { return this->below.allocate_in(t, slot, r); });
    }
    /// Above a heap that finds blocks, one that is not measured is measured here.
    void release(Thread& t, Block b) noexcept {
      if constexpr (Locates<Below>)
        if (b.is_unsized()) b = this->below.measure(b);
      taken_.fetch_sub(b.size, Order::relaxed);
      this->below.release(t, b);
    }
    void release_part(Thread& t, Block b) noexcept requires ReleasesParts<Below> {
      taken_.fetch_sub(b.size, Order::relaxed);
      this->below.release_part(t, b);
    }
    bool charge(std::size_t bytes, bool must) noexcept {
      if (must) taken_.fetch_add(bytes, Order::relaxed);
      return must || take(bytes);
    }
    void uncharge(std::size_t bytes) noexcept { taken_.fetch_sub(bytes, Order::relaxed); }
    /// For memory that does not come from below, but counts.
    bool charge_beside(std::size_t bytes) noexcept {
      if (!take(bytes)) return refused_.fetch_add(1, Order::relaxed), false;
      beside_.fetch_add(bytes, Order::relaxed);
      return true;
    }
    void uncharge_beside(std::size_t bytes) noexcept {
      beside_.fetch_sub(bytes, Order::relaxed);
      taken_.fetch_sub(bytes, Order::relaxed);
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      if (n > b.size && !take(n - b.size)) return {};
      const std::size_t taken = n > b.size ? n - b.size : 0;
      const Block resized = this->below.resize_in_place(t, b, n);
      taken_.fetch_add((resized ? resized.size - b.size : 0) - taken, Order::relaxed);
      return resized;
    }
    Block resize_by_moving(Thread&, Block, std::size_t) = delete;  // the caller copies, and the limit sees both blocks
    unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;  // would go past the count
    void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;

    /// Bytes in blocks that are out. Exact when nobody is inside.
    std::size_t taken_bytes() const noexcept { return taken_.load(Order::relaxed); }
    std::size_t limit_bytes() const noexcept { return limit_; }
    void set_limit_bytes(std::size_t bytes) noexcept { limit_ = bytes; }

    /// What was given back inside blocks may make room.
    std::size_t trim(Thread& t) noexcept {
      is_fresh_.store(false, Order::relaxed);
      return trim_below(this->below, t);
    }

    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      u.limit = limit_bytes() == kNoLimit ? 0 : limit_bytes();
      u.refused += refused_.load(Order::relaxed);
    }

   private:
    template <class Ask> Block counted(std::size_t bytes, Ask&& ask) noexcept {
      if (!take(bytes)) {
        refused_.fetch_add(1, Order::relaxed);
        return {};
      }
      const Block b = ask();
      // The source rounds up: what it gave beyond the wish is counted too, even where that passes the limit by a granule.
      taken_.fetch_add((b ? b.size : 0) - bytes, Order::relaxed);
      return b;
    }
    bool take(std::size_t bytes) noexcept { return take_up_to(limit_bytes(), bytes) || take_beyond(bytes); }
    bool take_up_to(std::size_t most, std::size_t bytes) noexcept {
      std::size_t taken = taken_.load(Order::relaxed);
      do {
        if (taken > most || bytes > most - taken) return false;
      } while (!taken_.compare_exchange_weak(taken, taken + bytes, Order::relaxed));
      return true;
    }

    static constexpr std::size_t kBeyond = 8, kPiece = 128;
    /// At the limit: from the room that the kernel left when it was last asked, which is asked again when much has changed.
    MORTISE_COLD bool take_beyond(std::size_t bytes) noexcept {
      if constexpr (SeesResidency<Below>) {
        const std::size_t limit = limit_bytes(), most = limit + limit / kBeyond;
        if (limit == kNoLimit || bytes > most) return false;
        Held held(this->lock_);
        const std::size_t taken = taken_bytes();
        if (taken + bytes > most) return false;
        const std::size_t moved = taken > seen_at_ ? taken - seen_at_ : seen_at_ - taken;
        if (!is_fresh_.load(Order::relaxed) || moved >= limit / kPiece) {
          std::size_t resident;
          if (!this->below.see_resident_bytes(resident)) return false;
          resident += beside_.load(Order::relaxed);
          seen_at_ = taken;
          full_at_ = taken + (resident < limit ? limit - resident : 0);
          is_fresh_.store(true, Order::relaxed);
        }
        return take_up_to(full_at_ < most ? full_at_ : most, bytes);
      }
      return false;
    }

    Atomic<std::size_t> taken_{0};
    Preset<kBytes> limit_;
    Atomic<std::size_t> refused_{0};
    Atomic<std::size_t> beside_{0};    ///< part of what is taken
    std::size_t seen_at_ = 0, full_at_ = 0;  ///< under the lock: what was taken when the kernel was asked, and what could be by its answer
    Atomic<bool> is_fresh_{false};           ///< nothing was given back inside blocks since
  };
};

}  // namespace mortise
