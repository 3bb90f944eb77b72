// A page that nobody may touch behind every span: a write that runs out of a slab or of a large block ends there, at once.
//
//   low address                                   high address
//   ┌──────────────────────────────┬───────────┬ ─ ─ ─ ─ ─ ─ ─ ─ ┐
//   │ the slab, or the large block │ no access │ up to the granule │   ◄ what is below gives: whole granules
//   └──────────────────────────────┴───────────┴ ─ ─ ─ ─ ─ ─ ─ ─ ┘
//
// What is left of the span's last granule forbids access as well: an underflow of the next span ends there. The page takes address space
// and no memory. Before Linux 6.13 a protected page splits a mapping, of which a process may have some 65 000: after kGuardsMax spans
// further ones go without. There, too, a limit on memory (RLIMIT_DATA) may keep a page from being opened again; its span then stays out
// of use.
//
// Programs that resize and release large blocks all the time pay three system calls for each: inside Bypass (kBehindLarge off) only slabs,
// which stay, have a wall; those beyond kGuardsMax then take no granule for one, either.
//
// Bound: three system calls a span. Progress: as the kernel's. Source: guard pages as in [hardened_malloc].
// Placement: between the backbone and the span cache: under Bypass, or, for slabs alone, the last of the layers inside it.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/guards.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

/// `kGuardsMax` (1..65536): spans beyond so many go without.
/// `kBehindLarge`: large blocks have a page behind them, too. Without, they pass this layer by.
template <std::size_t kGuardsMax = 16384, bool kBehindLarge = true> struct GuardPages {
  static constexpr const char* kName = "GuardPages";
  static constexpr const char* kWhat = "a page without access behind every slab, and every large block that it serves";
  static constexpr const char* kNeeds = "spans below (SpanCache over PageIndex)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("guards_max", kGuardsMax).number("behind_large", kBehindLarge);
  }

  template <Indexed Below> requires Locates<Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr bool kTakesUnsized = true;

    bool start(const os::Facts& facts) noexcept {
      page_ = facts.page_bytes;
      return start_below(this->below, facts);
    }
    Block allocate(Thread& t, Request r) noexcept {
      if constexpr (!kBehindLarge) {  // spans of slabs: whole granules, so that a part of one tells of a wall
        r.size = round_up(r.size, IndexOf<Below>::kGranule);
        if (spans_.load(Order::relaxed) >= kGuardsMax) return this->below.allocate(t, r);
      }
      return guarded(this->below.allocate(t, r.grown_by(page_)));
    }
    void release(Thread& t, Block b) noexcept {
      if (!has_wall(b.ptr)) return this->below.release(t, b);
      if (const Block outer = opened(whole(b))) this->below.release(t, outer);
    }
    Block measure(Block b) noexcept {
      const Block outer = this->below.measure({b.ptr, 0});
      return kBehindLarge ? outer.shrunk_by(page_) : outer;  // slabs are not measured
    }

    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      if (!kBehindLarge) return this->below.resize_in_place(t, b, n);
      if (n > SIZE_MAX / 2) return {};
      const Block old = opened(whole(b));
      if (!old) return {};
      const Block resized = this->below.resize_in_place(t, old, n + page_);
      const Block now = guarded(resized ? resized : old);
      return resized ? now : Block{};
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      if (!kBehindLarge) return this->below.resize_by_moving(t, b, n);
      if (n > SIZE_MAX / 2) return {};
      const Block old = opened(whole(b));
      if (!old) return {};
      const Block moved = this->below.resize_by_moving(t, old, n + page_);
      const Block now = guarded(moved ? moved : old);
      return moved ? now : Block{};
    }

    /// Whether `p` lies in a guard page. Whose pointer ran into it, from before or from behind, is not known: the block is the address.
    bool explain(const std::byte* p, Crime& crime) noexcept {
      if (!this->holds(p)) return false;
      auto& index = this->page_index();
      const Span* const s = index.span_of(p);  // true for the last granule of a span, where its guard lies
      if (s->state != SpanState::slab && !(kBehindLarge && s->state == SpanState::large)) return false;
      if (!has_wall(p)) return false;
      if (p < index.base_of(s) + index.used_bytes_of(s) - page_) return false;
      crime = {.fault = Fault::out_of_bounds, .block = {const_cast<std::byte*>(p), 0}};
      return true;
    }

    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      const std::size_t bytes = spans_.load(Order::relaxed) * page_;
      u.live -= bytes;
      u.large -= bytes;
      u.cached += bytes;
    }

   private:
    bool has_wall(const std::byte* p) noexcept {
      auto& index = this->page_index();
      return kBehindLarge || index.used_bytes_of(index.span_of(p)) % IndexOf<Below>::kGranule != 0;
    }
    Block whole(Block b) noexcept { return this->below.measure({b.ptr, 0}); }
    Block guarded(Block outer) noexcept {
      if (!outer) return outer;
      spans_.fetch_add(1, Order::relaxed);
      if (spans_.load(Order::relaxed) <= kGuardsMax) os::set_guard(outer.end() - page_, wall_bytes(outer));
      return outer.shrunk_by(page_);
    }
    /// Empty when the system refuses: the guard then stays where it is.
    Block opened(Block outer) noexcept {
      if (!os::remove_guard(outer.end() - page_, wall_bytes(outer))) return {};
      spans_.fetch_sub(1, Order::relaxed);
      return outer;
    }
    /// From the page to the end of the span, which is less than a granule further.
    std::size_t wall_bytes(Block outer) noexcept {
      auto& index = this->page_index();
      const Span* const s = index.span_of(outer.ptr);
      return static_cast<std::size_t>(index.base_of(s) + index.bytes_of(s) - (outer.end() - page_));
    }
    Preset<4_KiB> page_;
    Atomic<std::size_t> spans_{0};
  };
};

}  // namespace mortise
