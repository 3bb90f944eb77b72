// A byte for every place where a block may start, out of line: what guards know of a block without writing into it.
//
//   pointer ── / 16 ── bias + that ──► mark     1 byte; `kPlanes` of them, one for each guard that keeps marks
//
// The table grows with the heap, as PageIndex's do, and is memory only where the heap is: a sixteenth of it a plane. Marks of memory
// that the source gets back are cleared, and so are whole pages of them with the pages that they are of: a block that was released in
// memory that went back since is one that was never there. Nothing the program writes past a block reaches them.
//
// Large blocks, those without a size class that begin with a granule, have marks in a table of their own, a byte for each granule:
// in the other one theirs would lie 4 KiB apart, a page for each.
//
// Progress: looking up wait-free; growth blocking, under one lock. Source: out-of-line metadata as in [Evans06]; a shadow byte as in
// [Serebryany12]. Placement: directly above a source with one window of addresses, under PageIndex or a backbone.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kPlanes` (1..4): one for each guard that keeps marks.
template <unsigned kPlanes = 1> struct BlockMarks {
  static constexpr const char* kName = "BlockMarks";
  static constexpr const char* kWhat = "a byte out of line for every 16 bytes, where guards note the state of a block";
  static constexpr const char* kNeeds = "a source with one window of addresses directly below (MmapHeap)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).number("planes", kPlanes); }

  template <Contiguous Below> class Over : public Locked<Below, FutexLock> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr std::size_t kGranule = Below::kGranule;
    static constexpr std::size_t kReach = Below::kReach;

    std::byte* origin() noexcept { return this->below.origin(); }
    std::byte* side(std::size_t n) noexcept { return this->below.side(n); }
    bool back_side(std::byte* at, std::size_t n) noexcept { return this->below.back_side(at, n); }

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      page_bytes_ = facts.page_bytes;
      Held held(this->lock_);
      if (table_) return true;
      large_ = this->below.side(kPlanes * kLargeBytes);
      table_ = this->below.side(kPlanes * kPlaneBytes);
      if (!table_ || !large_) return false;
      large_bias_ = address_of(large_) - address_of(this->below.origin()) / kGranule;
      bias_ = address_of(table_) - address_of(this->below.origin()) / kMinAlign;
      return true;
    }

    Block allocate(Thread& t, Request r) noexcept {
      const Block b = this->below.allocate(t, r);
      if (!b || cover(static_cast<std::size_t>(b.end() - this->below.origin()))) return b;
      this->below.release(t, b);
      return {};
    }
    void release(Thread& t, Block b) noexcept {
      for (unsigned plane = 0; plane < kPlanes; ++plane) {
        clear_marks(&mark<0>(b.ptr) + plane * kPlaneBytes, b.size / kMinAlign);
        clear_marks(&large_mark<0>(b.ptr) + plane * kLargeBytes, b.size / kGranule);
      }
      this->below.release(t, b);
    }

    /// Marks of pages whose contents are gone go with them, a page of marks at a time.
    bool purge_pages(std::byte* at, std::size_t bytes) noexcept requires PurgesPages<Below> {
      if (!this->below.purge_pages(at, bytes)) return false;
      const std::size_t page = page_bytes_;
      const std::uintptr_t first = round_up(address_of(&mark<0>(at)), page), last = round_down(address_of(&mark<0>(at + bytes)), page);
      for (unsigned plane = 0; first < last && plane < kPlanes; ++plane)
        os::purge(reinterpret_cast<std::byte*>(first) + plane * kPlaneBytes, last - first);
      return true;
    }

    Over& block_marks() noexcept { return *this; }

    /// The mark of the 16 bytes that `p` lies in, which must be memory of this heap. Marks of two blocks may be written at once;
    /// those of one belong to whoever holds it. Where others look at them all the same they `glance`, and all write by `show`.
    template <unsigned kPlane> MORTISE_HOT std::uint8_t& mark(const std::byte* p) const noexcept {
      static_assert(kPlane < kPlanes, "each guard that keeps marks needs a plane of its own: BlockMarks<2>");
      return reinterpret_cast<std::uint8_t*>(bias_ + address_of(p) / kMinAlign)[kPlane * kPlaneBytes];
    }

    /// The same by its place in the heap (PageIndex), which starts where the marks do.
    template <unsigned kPlane> MORTISE_HOT std::uint8_t& mark_at(std::size_t place) const noexcept {
      static_assert(kPlane < kPlanes, "each guard that keeps marks needs a plane of its own: BlockMarks<2>");
      return reinterpret_cast<std::uint8_t*>(table_)[place + kPlane * kPlaneBytes];
    }

    /// The mark of a large block, by its granule; otherwise as `mark`.
    template <unsigned kPlane> std::uint8_t& large_mark(const std::byte* p) const noexcept {
      static_assert(kPlane < kPlanes, "each guard that keeps marks needs a plane of its own: BlockMarks<2>");
      return reinterpret_cast<std::uint8_t*>(large_bias_ + address_of(p) / kGranule)[kPlane * kLargeBytes];
    }

    /// Clears the marks of `n` bytes from `p` on. O(n), and a system call for long ones.
    template <unsigned kPlane> void clear(const std::byte* p, std::size_t n) const noexcept {
      clear_marks(&mark<kPlane>(p), n / kMinAlign);
    }

   private:
    static constexpr std::size_t kPlaneBytes = kReach / kMinAlign;
    static constexpr std::size_t kLargeBytes = round_up(kReach / kGranule, 64_KiB);
    static constexpr std::size_t kStep = kGranule < 64_KiB ? kGranule : 64_KiB;  // the tables grow by this much at least
    static constexpr std::size_t kPurgeBytes = 64_KiB;  // a stretch of marks this long goes back to the system instead

    bool cover(std::size_t extent) noexcept {
      Held held(this->lock_);
      return cover(table_, kPlaneBytes, covered_, extent / kMinAlign) && cover(large_, kLargeBytes, large_covered_, extent / kGranule);
    }
    bool cover(std::byte* table, std::size_t plane_bytes, std::size_t (&covered)[kPlanes], std::size_t marks) noexcept {
      const std::size_t bytes = round_up(marks, kStep);
      for (unsigned plane = 0; plane < kPlanes; ++plane) {
        if (covered[plane] >= bytes) continue;
        if (!this->below.back_side(table + plane * plane_bytes + covered[plane], bytes - covered[plane])) return false;
        covered[plane] = bytes;
      }
      return true;
    }
    void clear_marks(std::uint8_t* marks, std::size_t n) const noexcept {
      auto* const first = reinterpret_cast<std::byte*>(marks);
      const std::size_t page = page_bytes_, pages = n >= kPurgeBytes && is_aligned(first, page) ? round_down(n, page) : 0;
      const bool purged = pages && os::purge(first, pages);
      for (std::size_t i = purged ? pages : 0; i < n; ++i) show(marks[i], std::uint8_t{0});
    }

    // The first words are what guards read.
    std::uintptr_t bias_ = 0;
    std::byte* table_ = nullptr;
    std::uintptr_t large_bias_ = 0;
    std::byte* large_ = nullptr;
    std::size_t covered_[kPlanes] = {}, large_covered_[kPlanes] = {};
    Preset<4_KiB> page_bytes_;
  };
};

}  // namespace mortise
