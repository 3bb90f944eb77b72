// Blocks of any size, each between two tags: neighbours are found by arithmetic, and free ones merge at once.
//
//   low address                                                    high address
//   ┌──────────┬──────────────────────┬──────────┬───────────────────────┐
//   │ tag      │ the program's bytes               │ tag     │ ...         │   in use: the last 8 bytes, where the next tag
//   └──────────┴──────────────────────┴──────────┴───────────────────────┘   looks for a size, belong to the program
//   ┌──────────┬──────┬───────┬─────────────┬──────┬──────────┐
//   │ tag      │ left │ right │ (unused)    │ size │ tag      │               free: a tree node, and the size again at the end
//   └──────────┴──────┴───────┴─────────────┴──────┴──────────┘
//
// A tag is the chunk's size with three bits: this chunk is in use, the one before is in use, this one is free and its pages were
// given back since. Memory comes from below in regions; regions that lie side by side become one. Each region ends in a tag of an
// empty chunk in use, so that merging stops there.
//
// Bound: that of the Fit slot's free set; all else is constant but for growing. 8 bytes a block, at most 15 more by rounding.
// Progress: blocking, one lock. Source: boundary tags [Knuth73]; the shared last word as in [Lea00]; fits as in [Wilson95].
// Placement: directly above a source with one window of addresses. Above it anything, a thread cache for instance.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/fit.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/locked.hpp"

namespace mortise {

/// A chunk, seen from its tag. Never constructed: laid over memory that the backbone owns.
struct Chunk {
  static constexpr std::size_t kInUse = 1, kPreviousInUse = 2, kPurged = 4, kBits = 15;  // kPurged says nothing of a chunk in use
  std::size_t tag;  // of a chunk in use: its holder asks for the size while, under the lock, its neighbour sets kPreviousInUse
  Chunk* left;   // from here on only while free
  Chunk* right;
  std::size_t largest;

  std::size_t size() const noexcept { return glance(tag) & ~kBits; }
  bool is_in_use() const noexcept { return glance(tag) & kInUse; }
  bool is_previous_in_use() const noexcept { return glance(tag) & kPreviousInUse; }
  std::byte* start() noexcept { return reinterpret_cast<std::byte*>(this); }
  std::byte* bytes() noexcept { return start() + sizeof tag; }
  Chunk* next() noexcept { return reinterpret_cast<Chunk*>(start() + size()); }
  Chunk* previous() noexcept { return reinterpret_cast<Chunk*>(start() - reinterpret_cast<std::size_t*>(this)[-1]); }
  static Chunk* of(std::byte* bytes) noexcept { return reinterpret_cast<Chunk*>(bytes - sizeof tag); }
  void set_footer() noexcept { reinterpret_cast<std::size_t*>(next())[-1] = size(); }
};

/// `Fit`: which of the free chunks that fit is taken.
/// `Sync`: the one lock of the backbone.
/// `Purge`: whether released blocks of 128 KiB and more give their pages back at once; a delay counts as never.
/// `kQuantum` (16..4 KiB, power of two): sizes of chunks are multiples of it, and blocks start at multiples of it.
template <fit::ChunkFit Fit = fit::BestFit, Lock Sync = FutexLock, PurgePolicy Purge = purge::AtOnce, std::size_t kQuantum = kMinAlign>
struct BoundaryTag {
  static constexpr const char* kName = "BoundaryTag";
  static constexpr const char* kWhat = "blocks of any size between tags; free neighbours merge at once";
  static constexpr const char* kNeeds = "a source with one window of addresses directly below (MmapHeap, BrkHeap, StaticHeap)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Fit", Fit::kName).policy("Sync", Sync::kName).policy("Purge", Purge::kName);
  }

  template <Contiguous Below> class Over : public Locked<Below, Sync> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr Progress kProgress = weakest(Below::kProgress, Progress::of(Sync::kGuarantee));
    static constexpr std::size_t kTag = sizeof(std::size_t);
    using FreeSet = typename Fit::template FreeSet<Chunk>;
    static constexpr std::size_t kChunkMin = round_up(FreeSet::kChunkMin, kQuantum);
    static constexpr std::size_t kGrowMin = 256_KiB;
    static constexpr std::size_t kPurgeBytes = 128_KiB;  ///< with purge::AtOnce, released blocks of this size give their pages back

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      page_bytes_ = facts.page_bytes;
      origin_ = this->below.origin();
      return true;
    }

    MORTISE_HOT Block allocate(Thread& t, Request r) noexcept {
      if (r.size > Below::kReach || r.align > Below::kReach) return {};
      const std::size_t need = chunk_bytes(r.size);
      const std::size_t slack = r.align > kQuantum ? r.align + (kChunkMin > kQuantum ? kChunkMin : kQuantum) : 0;
      auto step = [this, &t, need, slack, align = r.align]() __attribute__((always_inline)) { return take(t, need, slack, align); };
      Chunk* const c = with(this->lock_, step);
      if (!c) return {};
      if (r.zeroed) std::memset(c->bytes(), 0, r.size);
      return {c->bytes(), c->size() - kTag};
    }

    void release(Thread&, Block b) noexcept {
      with(this->lock_, [this, p = b.ptr]() __attribute__((always_inline)) { take_back(p); });
    }
    /// `n` blocks in one critical section: as long as they are many.
    void release_some(Thread&, std::byte* const* in, unsigned n) noexcept {
      with(this->lock_, [this, in, n] {
        for (unsigned i = 0; i < n; ++i) take_back(in[i]);
      });
    }

    bool holds(const std::byte* p) const noexcept { return static_cast<std::size_t>(p - origin_) < glance(extent_); }
    Block block_of(std::byte* p) noexcept { return {p, 0}; }
    Block measure(Block b) noexcept { return {b.ptr, chunk_bytes_of(b.ptr) - kTag}; }
    /// What the block at `p` takes up, its tag included.
    MORTISE_HOT std::size_t chunk_bytes_of(std::byte* p) noexcept { return checked(p)->size(); }

    /// Grows into a free chunk behind it, or splits off what is too much.
    Block resize_in_place(Thread&, Block b, std::size_t bytes) noexcept {
      if (bytes > Below::kReach) return {};
      const std::size_t need = chunk_bytes(bytes);
      Held held(this->lock_);
      Chunk* c = checked(b.ptr);
      const std::size_t have = c->size();
      if (need > have) {
        Chunk* n = c->next();
        if (n->is_in_use() || have + n->size() < need) return {};
        free_.remove(n);
        set_size(c, have + n->size());
        show(c->next()->tag, c->next()->tag | Chunk::kPreviousInUse);
      }
      if (c->size() >= need + kChunkMin) {
        Chunk* rest = cut(c, need);
        show(rest->tag, rest->tag | Chunk::kInUse);
        if (need < have) free_and_purge(rest);
        else free(rest);
      }
      live_ += c->size() - have;
      return {c->bytes(), c->size() - kTag};
    }

    /// Gives back whole pages inside free chunks. O(free chunks); a system call for each that was none the last time, since at a limit
    /// every failure comes here.
    std::size_t trim(Thread& t) noexcept {
      std::size_t given = 0;
      {
        Held held(this->lock_);
        free_.each([&](Chunk* c) {
          if (c->tag & Chunk::kPurged) return;
          const std::size_t bytes = purge_inside(c->start() + sizeof(Chunk), c->size() - sizeof(Chunk) - kTag);
          if (bytes) show(c->tag, c->tag | Chunk::kPurged);
          given += bytes;
        });
      }
      return given + trim_below(this->below, t);
    }

    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      Held held(this->lock_);
      u.live += live_;
      u.cached += grown_ - live_;
    }

    /// Walks every chunk of every region and reports heap_inconsistent when tags, footers or the tree disagree. O(chunks).
    void audit() noexcept {
      Held held(this->lock_);
      MORTISE_AUDIT(free_.is_sound());
      std::size_t in_tree = 0, in_tree_bytes = 0;
      free_.each([&](Chunk* c) {
        ++in_tree;
        in_tree_bytes += c->size();
        MORTISE_AUDIT(!c->is_in_use() && c->is_previous_in_use());
        MORTISE_AUDIT(c->next()->is_in_use() && !c->next()->is_previous_in_use() && c->next()->previous() == c);
      });
      std::size_t found = 0, found_bytes = 0, live = 0, total = 0;
      for (const Region* r = regions_; r; r = r->next) {
        Chunk* const end = Chunk::of(r->end);
        for (Chunk* c = Chunk::of(r->begin); c != end; c = c->next()) {
          MORTISE_AUDIT(c->size() >= kChunkMin && c < end);
          if (c->is_in_use()) live += c->size();
          else ++found, found_bytes += c->size();
        }
        MORTISE_AUDIT(end->is_in_use() && end->size() == 0);
        total += static_cast<std::size_t>(r->end - r->begin);
      }
      MORTISE_AUDIT(found == in_tree && found_bytes == in_tree_bytes && live == live_ && total == live + found_bytes);
    }

    /// Every block handed out. O(chunks).
    template <class Each> void each_live(Each&& each) noexcept {
      Held held(this->lock_);
      for (const Region* r = regions_; r; r = r->next) {
        for (Chunk* c = Chunk::of(r->begin); c != Chunk::of(r->end); c = c->next())
          if (c->is_in_use()) each(Block{c->bytes(), c->size() - kTag});
      }
    }

   private:
    /// A run of chunks; `begin` and `end` are where the bytes of the first chunk and of the closing one would start.
    struct Region {
      Region* next;
      std::byte* begin;
      std::byte* end;
    };

    static std::size_t chunk_bytes(std::size_t size) noexcept {
      const std::size_t bytes = round_up(size + kTag, kQuantum);
      return bytes < kChunkMin ? kChunkMin : bytes;
    }
    static void set_size(Chunk* c, std::size_t size) noexcept { show(c->tag, std::size_t{size | (c->tag & Chunk::kBits)}); }

    MORTISE_HOT Chunk* checked(std::byte* p) noexcept {
      const Block b{p, 0};
      MORTISE_CHECK(is_aligned(p, kMinAlign), Fault::invalid_free, b);
      Chunk* c = Chunk::of(p);
      const std::size_t tag = glance(c->tag), bytes = tag & ~Chunk::kBits, extent = glance(extent_);
      MORTISE_CHECK(tag & Chunk::kInUse, Fault::double_free, b);
      auto* const next = reinterpret_cast<Chunk*>(c->start() + bytes);
      const bool is_inside = bytes <= extent && static_cast<std::size_t>(next->start() - origin_) < extent;
      MORTISE_CHECK(bytes >= kChunkMin && is_inside, Fault::header_overwritten, b);
      MORTISE_CHECK(next->is_previous_in_use(), Fault::header_overwritten, b);
      return c;
    }

    // -- inside the critical section

    Chunk* take(Thread& t, std::size_t need, std::size_t slack, std::size_t align) noexcept {
      Chunk* c = free_.find(need + slack);
      if (!c && !(c = grow(t, need + slack))) return nullptr;
      free_.remove(c);
      if (slack) c = skip_to_alignment(c, align);
      use(c, need);
      live_ += c->size();
      return c;
    }
    void take_back(std::byte* p) noexcept {
      Chunk* c = checked(p);
      live_ -= c->size();
      free_and_purge(c);
    }

    /// Cuts `c` after `bytes`; the rest is neither free nor in use yet, but its neighbours' tags hold.
    static Chunk* cut(Chunk* c, std::size_t bytes) noexcept {
      Chunk* rest = reinterpret_cast<Chunk*>(c->start() + bytes);
      show(rest->tag, std::size_t{(c->size() - bytes) | Chunk::kPreviousInUse});
      set_size(c, bytes);
      return rest;
    }
    /// Marks a free chunk, out of the tree, as in use; what is more than `need` stays free.
    void use(Chunk* c, std::size_t need) noexcept {
      Chunk* rest = nullptr;
      if (c->size() >= need + kChunkMin) {
        rest = cut(c, need);
        rest->set_footer();
        free_.insert(rest);
      }
      show(c->tag, c->tag | Chunk::kInUse);
      if (!rest) show(c->next()->tag, c->next()->tag | Chunk::kPreviousInUse);
    }
    Chunk* skip_to_alignment(Chunk* c, std::size_t align) noexcept {
      if (is_aligned(c->bytes(), align)) return c;
      const std::uintptr_t at = address_of(c->bytes() + (kChunkMin > kQuantum ? kChunkMin : kQuantum));
      Chunk* aligned = cut(c, round_up(at, align) - address_of(c->bytes()));
      show(aligned->tag, aligned->tag & ~Chunk::kPreviousInUse);
      c->set_footer();
      free_.insert(c);
      return aligned;
    }
    /// Makes a chunk in use free, merged with its free neighbours; returns the merged chunk.
    Chunk* free(Chunk* c) noexcept {
      Chunk* n = c->next();
      if (!n->is_in_use()) {
        free_.remove(n);
        set_size(c, c->size() + n->size());
      }
      if (!c->is_previous_in_use()) {
        Chunk* p = c->previous();
        free_.remove(p);
        set_size(p, p->size() + c->size());
        c = p;
      }
      show(c->tag, c->tag & ~(Chunk::kInUse | Chunk::kPurged));
      c->set_footer();
      show(c->next()->tag, c->next()->tag & ~Chunk::kPreviousInUse);
      free_.insert(c);
      return c;
    }

    void free_and_purge(Chunk* c) noexcept {
      const std::size_t bytes = c->size();
      std::byte* const inside = c->start() + sizeof(Chunk);
      free(c);
      if (Purge::kDelayMs == 0 && bytes >= kPurgeBytes) purge_inside(inside, bytes - sizeof(Chunk) - kTag);
    }

    /// More memory from below, joined to the last region when it lies right behind it. A free chunk, in the tree.
    Chunk* grow(Thread& t, std::size_t need) noexcept {
      std::size_t wish = need + 2 * kQuantum;
      const std::size_t share = grown_ / 8;
      if (wish < share) wish = share;
      Block b = this->below.allocate(t, {.size = wish < kGrowMin ? kGrowMin : wish});
      if (!b) b = this->below.allocate(t, {.size = need + 2 * kQuantum});
      if (!b) return nullptr;
      const auto end_in_window = static_cast<std::size_t>(b.end() - origin_);
      if (end_in_window > extent_) show(extent_, end_in_window);
      Chunk* c;
      if (regions_ && regions_->end == b.ptr) {  // the closing chunk becomes the start of the new one
        c = Chunk::of(regions_->end);
        show(c->tag, std::size_t{b.size | (c->tag & Chunk::kPreviousInUse)});
        regions_->end = b.end();
        grown_ += b.size;
      } else {
        auto* region = reinterpret_cast<Region*>(this->below.meta(sizeof(Region)));
        if (!region) {
          this->below.release(t, b);
          return nullptr;
        }
        *region = {regions_, b.ptr + kQuantum, b.end()};
        regions_ = region;
        c = Chunk::of(region->begin);
        show(c->tag, std::size_t{(b.size - kQuantum) | Chunk::kPreviousInUse});
        grown_ += b.size - kQuantum;
      }
      show(c->next()->tag, std::size_t{Chunk::kInUse});  // the closing chunk: empty, in use; its tag is the last word of the memory
      show(c->tag, c->tag | Chunk::kInUse);
      return free(c);
    }

    std::size_t purge_inside(std::byte* from, std::size_t bytes) noexcept {
      if constexpr (!PurgesPages<Below>) return 0;
      else return purge_pages_inside(from, bytes);
    }
    std::size_t purge_pages_inside(std::byte* from, std::size_t bytes) noexcept requires PurgesPages<Below> {
      std::byte* const first = from + (round_up(address_of(from), page_bytes_) - address_of(from));
      std::byte* const last = from + bytes - (address_of(from + bytes) & (page_bytes_ - 1));
      if (first >= last) return 0;
      if (!this->below.purge_pages(first, static_cast<std::size_t>(last - first))) return 0;
      return static_cast<std::size_t>(last - first);
    }

    FreeSet free_;
    std::byte* origin_ = nullptr;
    std::size_t extent_ = 0, page_bytes_ = 0, live_ = 0, grown_ = 0;
    Region* regions_ = nullptr;
  };
};

}  // namespace mortise
