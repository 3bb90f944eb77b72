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
// Programs that resize and release large blocks all the time pay two system calls for each, three where pages are protected: inside Bypass
// (kBehindLarge off) only slabs have a wall, and only where pages are smaller than granules; those beyond kGuardsMax then take no granule
// for one, either. A slab that is given back stays here with its wall, up to kKeptBytes of them, until one as large is asked for or the
// heap is trimmed: nobody's span meanwhile, no block's place.
//
// Bound: three system calls a span. Progress: as the kernel's; a trim is blocking. Source: guard pages as in [hardened_malloc].
// Placement: between the backbone and the span cache: under Bypass, or, for slabs alone, the last of the layers inside it.
#pragma once

#include <array>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/guards.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// `kGuardsMax` (1..65536): spans beyond so many go without.
/// `kBehindLarge`: large blocks have a page behind them, too. Without, they pass this layer by.
template <std::size_t kGuardsMax = 16384, bool kBehindLarge = true> struct GuardPages {
  static constexpr const char* kName = "GuardPages";
  static constexpr const char* kWhat = "a page without access behind every slab, and every large block that it serves";
  static constexpr const char* kNeeds = "spans below (SpanCache over PageIndex) that have no walls yet, and slabs and caches above it";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("guards_max", kGuardsMax).number("behind_large", kBehindLarge);
  }

  template <GivesSpans Below> requires Locates<Below> && (!facts_of<Below>().has_walls())
  class Over : public Locked<Below, FutexLock> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr bool kTakesUnsized = true;
    static constexpr BlockFacts kFacts =
        kBehindLarge ? facts_of<Below>().watched().with(Spans::walled) : facts_of<Below>().with(Spans::slabs);

    bool start(const os::Facts& facts) noexcept {
      page_ = facts.page_bytes;
      has_walls_ = kBehindLarge || page_ % IndexOf<Below>::kGranule != 0;
      return start_below(this->below, facts);
    }
    Block allocate(Thread& t, Request r) noexcept {
      if constexpr (!kBehindLarge) {  // spans of slabs: whole granules, so that a part of one tells of a wall
        r.size = round_up(r.size, IndexOf<Below>::kGranule);
        if (!r.zeroed && r.align <= IndexOf<Below>::kGranule)
          if (std::byte* const p = take_kept(r.size)) return {p, r.size};
        if (!has_walls_) return this->below.allocate(t, r);
        if (spans_.load(Order::relaxed) >= kGuardsMax && !give_back_one(t)) return this->below.allocate(t, r);
      }
      Block outer = this->below.allocate(t, r.grown_by(page_));
      while (!outer && give_back_one(t)) outer = this->below.allocate(t, r.grown_by(page_));
      return guarded(outer);
    }
    void release(Thread& t, Block b) noexcept {
      if (!has_wall(b.ptr)) return this->below.release(t, b);
      if (keep(b.ptr)) return;
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

    /// Gives the spans that it keeps below, then trims there. Under the lock, which a fork waits for: none is underway then. All others
    /// who take one hold a lock of the layer above.
    std::size_t trim(Thread& t) noexcept requires Trims<Below> {
      for (bool any = kKept; any;) {
        Held held(this->lock_);
        any = give_back_one(t);
      }
      return this->below.trim(t);
    }

    /// Whether `p` lies in a guard page. Whose pointer ran into it, from before or from behind, is not known: the block is the address.
    bool explain(const std::byte* p, Crime& crime) noexcept {
      if (!this->holds(p)) return false;
      auto& index = this->page_index();
      const Span* const s = index.span_of(p);  // true for the last granule of a span, where its guard lies
      if (s->state != SpanState::slab && s->state != (kBehindLarge ? SpanState::large : SpanState::none)) return false;  // none: kept
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
      for (const auto& kept : kept_)
        if (const std::size_t waiting = bytes_in(kept.load(Order::relaxed))) {
          u.live -= waiting;
          u.large -= waiting;
          u.large_count -= 1;
          u.dirty += waiting;
        }
    }

   private:
    using Index = IndexOf<Below>;
    static constexpr unsigned kKept = kBehindLarge ? 0 : 16;
    static constexpr std::size_t kKeptBytes = 1_MiB;

    // A kept span is one word: the address of its first granule and, in the bits that are zero there, its granules but for the wall.
    static std::size_t bytes_in(std::uintptr_t span) noexcept { return span % Index::kGranule * Index::kGranule; }
    /// Whether what is free goes back to the system at once.
    bool gives_back_at_once() noexcept {
      if constexpr (requires { this->below.is_pressed(); }) return this->below.is_pressed() || this->below.purge_ms() == 0;
      else return false;
    }
    /// No when it is too large, or there are enough of them.
    bool keep(std::byte* p) noexcept {
      auto& index = this->page_index();
      const Span* const s = index.span_of(p);
      const std::size_t bytes = Index::used_bytes_of(s) - page_;
      if (kKept == 0 || bytes / Index::kGranule >= Index::kGranule || gives_back_at_once()) return false;
      if (kept_bytes_.fetch_add(bytes, Order::relaxed) + bytes <= kKeptBytes) {
        index.set_span(s->head, s->granules, SpanState::none);
        for (auto& kept : kept_) {
          std::uintptr_t none = kept.load(Order::relaxed);
          const std::uintptr_t span = address_of(p) + bytes / Index::kGranule;
          if (!none && kept.compare_exchange_strong(none, span, Order::release, Order::relaxed)) return true;
        }
        index.set_span(s->head, s->granules, SpanState::large);
      }
      kept_bytes_.fetch_sub(bytes, Order::relaxed);
      return false;
    }
    /// A kept span of so many bytes, as the large block that it was; null when there is none.
    std::byte* take_kept(std::size_t bytes) noexcept {
      for (auto& kept : kept_)
        if (std::uintptr_t span = kept.load(Order::relaxed); bytes_in(span) == bytes)
          if (std::byte* const p = claim(kept, span)) return p;
      return nullptr;
    }
    std::byte* claim(Atomic<std::uintptr_t>& kept, std::uintptr_t span) noexcept {
      if (!span || !kept.compare_exchange_strong(span, 0, Order::acquire, Order::relaxed)) return nullptr;
      kept_bytes_.fetch_sub(bytes_in(span), Order::relaxed);
      auto* const base = reinterpret_cast<std::byte*>(span - span % Index::kGranule);
      const Span* const s = this->page_index().span_of(base);
      this->page_index().set_span(s->head, s->granules, SpanState::large);
      return base;
    }
    /// One of the kept goes below, without its wall; false when there is none.
    bool give_back_one(Thread& t) noexcept {
      for (auto& kept : kept_)
        if (std::byte* const p = claim(kept, kept.load(Order::relaxed))) {
          if (const Block outer = opened(whole({p, 0}))) this->below.release(t, outer);
          return true;
        }
      return false;
    }
    bool has_wall(const std::byte* p) noexcept {
      auto& index = this->page_index();
      return kBehindLarge || index.used_bytes_of(index.span_of(p)) % IndexOf<Below>::kGranule != 0;
    }
    Block whole(Block b) noexcept { return this->below.measure({b.ptr, 0}); }
    Block guarded(Block outer) noexcept {
      if (!outer) return outer;
      if (spans_.fetch_add(1, Order::relaxed) < kGuardsMax) guards_.set(outer.end() - page_, wall_bytes(outer));
      return outer.shrunk_by(page_);
    }
    /// Empty when the system refuses: the guard then stays where it is.
    Block opened(Block outer) noexcept {
      if (!guards_.remove(outer.end() - page_, wall_bytes(outer))) return {};
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
    bool has_walls_ = false;
    os::Guards guards_;
    Atomic<std::size_t> spans_{0};
    Atomic<std::size_t> kept_bytes_{0};  ///< for a moment perhaps more than there are
    std::array<Atomic<std::uintptr_t>, kKept> kept_ = {};
  };
};

}  // namespace mortise
