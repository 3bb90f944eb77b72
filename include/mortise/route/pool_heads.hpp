// Heads of pools at work: objects out of segments, back into them, and who owns what.
//
//   take(h):  current segment ── used up ─► objects others released ─► a segment with room ─► a new one of the range
//   put(s,p): push on the segment's list ── full so far: it has room again ── empty: back to the range
//
// A segment is current (objects come from it), full (in no list), with room (in its head's list) or free (the range's). Progress:
// taking and putting wait-free while a segment lasts; otherwise blocking, one lock over the range and over who owns which head.
#pragma once

#include <new>

#include "mortise/core/core.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/route/mixed_pool.hpp"
#include "mortise/route/pool_range.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// What concerns one head is done by the thread that owns it; `push_remote`, `adopt`, `orphan` and the counts by any.
template <std::size_t kSegmentBytes> class PoolHeads {
 public:
  using Range = PoolRange<kSegmentBytes>;
  using Mixed = MixedPool<kSegmentBytes>;
  static constexpr std::size_t kPageOfHeads = 256;

  /// `meter` is told of all memory that segments take.
  bool start(std::size_t page_bytes, PoolMeter meter) noexcept {
    Held held(ground_.lock);
    page_bytes_ = page_bytes;
    return ground_.range.start(page_bytes, meter);
  }
  MORTISE_HOT const Range& range() const noexcept { return ground_.range; }
  void set_huge(HugePages pages) noexcept { ground_.range.set_huge(pages); }

  MORTISE_HOT static std::byte* pop(PoolSegment& s) noexcept {
    std::byte* p = s.free;
    if (p) s.free = link_of(p);
    else if (p = s.fresh; p != s.end) [[likely]] s.fresh = p + s.stride;
    else return nullptr;
    show(s.live, s.live + 1);
    return p;
  }
  MORTISE_HOT static void push(PoolSegment& s, std::byte* p) noexcept {
    link_of(p) = s.free;
    s.free = p;
    show(s.live, s.live - 1);
  }

  /// The same for a release by the owner, or by anybody into a mixed pool.
  void put(PoolSegment& s, std::byte* p) noexcept {
    if (!s.stride) return mixed_of(*s.head)->put(p);
    const bool is_noticed = s.live == s.notice;
    push(s, p);
    if (is_noticed) settle(s);
  }

  /// How much the object at `p` may use.
  std::size_t bytes_of(const PoolSegment& s, std::byte* p) noexcept { return s.stride ? s.stride : mixed_of(*s.head)->bytes_of(p); }

  /// Where an address that may be anything lies; empty when in no object of a pool of one size.
  PooledObject object_at(const std::byte* p) const noexcept {
    if (!ground_.range.holds(p)) return {};
    const PoolSegment* const s = ground_.range.segment_of(p);
    if (p >= ground_.range.memory_of(s) + glance(s->first) * kMinAlign) return object_in(*s, p);
    return p < ground_.range.origin() + kSegmentBytes ? PooledObject{} : object_in(s[-1], p);
  }

  /// An object of this head, from wherever there is one. Null when the system refuses memory.
  MORTISE_COLD std::byte* take(PoolHead& h, std::size_t bytes) noexcept {
    if (h.mixed) return mixed_of(h)->take(bytes);
    drain(h);
    if (std::byte* p = pop(*h.current)) return p;
    PoolSegment* s = h.with_room;
    if (s) {
      unlink(*s);
    } else {
      Held held(ground_.lock);
      s = ground_.range.take(h);
      if (!s) return nullptr;
      ++h.grown;
    }
    if (h.current != &none_) {
      h.current->state = SegmentState::full;
      h.current->notice = h.current->live;
    }
    s->state = SegmentState::current;
    s->notice = PoolSegment::kNever;
    h.current = s;
    return pop(*s);
  }

  /// Drains, and gives empty segments back; the current one too, when it is empty.
  void tidy(PoolHead& h) noexcept {
    drain(h);
    for (PoolSegment *s = h.with_room, *next; s; s = next) {
      next = s->next;
      if (s->live == 0) give_back(*s);
    }
    Held held(ground_.lock);
    ground_.range.give_back_extent(h);
    if (h.current != &none_ && h.current->live == 0) {
      ground_.range.give_back(h.current);
      h.current = &none_;
    }
  }

  /// A head of `pool` for the thread whose record is `owner`: one whose thread has ended, or a new one. Null without memory.
  PoolHead* adopt(Pool& pool, void* owner) noexcept {
    if (pool.is_mixed && !serve_mixed(pool)) return nullptr;
    Held held(ground_.lock);
    PoolHead* h = pool.orphans;
    if (h) pool.orphans = h->next_orphan;
    else if (!(h = make_head(pool))) return nullptr;
    h->owner.store(owner, Order::relaxed);
    return h;
  }
  void orphan(PoolHead& h) noexcept {
    tidy(h);
    Held held(ground_.lock);
    h.owner.store(PoolHead::nobody(), Order::release);
    h.next_orphan = h.pool->orphans;
    h.pool->orphans = &h;
  }
  /// A table of `kPageOfHeads` empty entries, and its return.
  PoolHead** take_page() noexcept {
    Held held(ground_.lock);
    PoolHead** const page = idle_pages_;
    if (!page) return reinterpret_cast<PoolHead**>(ground_.meta.take(kPageOfHeads * sizeof *page));
    idle_pages_ = reinterpret_cast<PoolHead**>(page[0]);
    page[0] = nullptr;
    return page;
  }
  void give_page(PoolHead** page) noexcept {
    Held held(ground_.lock);
    page[0] = reinterpret_cast<PoolHead*>(idle_pages_);
    idle_pages_ = page;
  }

  /// Gives whole pages inside the free chunks of mixed pools back. Returns the bytes given.
  std::size_t trim_mixed() noexcept {
    std::size_t given = 0;
    each_mixed([&](Mixed& m) { given += m.trim(); });
    return given;
  }
  /// Gives pages of free segments back: all, or those that were free at the call before the last. Returns the bytes given.
  /// What was released of threads that have ended becomes free first: nobody else would ever look, if no thread needs those pools again.
  std::size_t purge(std::uint8_t rounds) noexcept {
    for (PoolHead* h = take_orphan(nullptr); h; h = take_orphan(h)) orphan(*h);
    Held held(ground_.lock);
    return ground_.range.purge(rounds);
  }
  std::size_t dirty_bytes() const noexcept { return ground_.range.dirty_bytes(); }

  void lock_all() noexcept {
    if (hold(mixed_lock_))
      for (Mixed* m = mixed_; m; m = m->next) {
        m->lock_all();
        m->held_before = held_;
        held_ = m;
      }
    hold(ground_.lock);
  }
  void unlock_all() noexcept {
    let_go(ground_.lock);
    for (; held_; held_ = held_->held_before) held_->unlock_all();
    let_go(mixed_lock_);
  }
  void reset_after_fork() noexcept {
    ground_.lock.reset();
    for (Mixed* m = mixed_; m; m = m->next) m->reset_after_fork();
    held_ = nullptr;
    mixed_lock_.reset();
  }

  /// Objects that wait in remote lists count as live.
  void tell(Usage& u) noexcept {
    each_mixed([&](Mixed& m) { m.tell(u); });
    Held held(ground_.lock);
    ground_.range.tell(u);
    u.meta += ground_.meta.mapped_bytes();
  }

  /// Calls each(pool, objects out, objects that fit) for every segment in use. What threads change meanwhile is read as it is.
  template <class Each> void survey(Each&& each) const noexcept {
    for (std::uint32_t i = 0; i < ground_.range.end(); ++i) {
      const PoolSegment& s = ground_.range.at(i);
      const PoolHead* const h = glance(s.head);
      const std::uint32_t stride = glance(s.stride);  // 0 too, where a mixed pool is just getting the segment
      if (h && !h->mixed && stride) each(*h->pool, glance(s.live), std::uint32_t{kSegmentBytes} / stride);
    }
  }

  /// Each segment's lists and counts agree. The heap must be at rest.
  void audit() noexcept {
    each_mixed([](Mixed& m) { m.audit(); });
    for (std::uint32_t i = 0; i < ground_.range.end(); ++i) {
      PoolSegment& s = ground_.range.at(i);
      if (!s.head || s.head->mixed) continue;
      std::byte* const first = ground_.range.memory_of(&s) + s.first * kMinAlign;
      MORTISE_AUDIT(s.first >= s.skip);
      std::uint32_t released = 0;
      for (std::byte* p = s.free; p; p = link_of(p), ++released)
        MORTISE_AUDIT(p >= first && p < s.fresh && static_cast<std::size_t>(p - first) % s.stride == 0);
      MORTISE_AUDIT(s.fresh <= s.end && static_cast<std::size_t>(s.fresh - first) == (s.live + released) * std::size_t{s.stride});
      MORTISE_AUDIT((s.head->current == &s) == (s.state == SegmentState::current));
      MORTISE_AUDIT(s.state != SegmentState::full || (!s.free && s.fresh == s.end));
    }
  }

 private:
  /// The object of `s` that `p` lies in; empty behind its last one.
  static PooledObject object_in(const PoolSegment& s, const std::byte* p) noexcept {
    PoolHead* const h = glance(s.head);
    const std::size_t stride = glance(s.stride);  // 0 too, where a mixed pool is just getting the segment
    std::byte* const end = glance(s.end);
    if (!h || h->mixed || !stride || p >= end) return {};
    return {h->pool, end - (static_cast<std::size_t>(end - p) + stride - 1) / stride * stride};
  }
  /// A release brought a segment to where something changes: it has room again, or is empty.
  MORTISE_COLD void settle(PoolSegment& s) noexcept {
    PoolHead& h = *s.head;
    MORTISE_CHECK(s.live != ~std::uint32_t{0}, Fault::double_free, (Block{s.free, s.stride}));
    if (s.state == SegmentState::full) {
      s.state = SegmentState::with_room;
      s.notice = 1;
      s.prev = nullptr;
      s.next = h.with_room;
      if (s.next) s.next->prev = &s;
      h.with_room = &s;
    }
    // One empty segment stays: the next object is likely to come soon.
    if (s.state == SegmentState::with_room && s.live == 0 && (h.with_room != &s || s.next)) give_back(s);
  }
  void unlink(PoolSegment& s) noexcept {
    PoolHead& h = *s.head;
    (s.prev ? s.prev->next : h.with_room) = s.next;
    if (s.next) s.next->prev = s.prev;
  }
  void give_back(PoolSegment& s) noexcept {
    unlink(s);
    Held held(ground_.lock);
    ground_.range.give_back(&s);
  }

  void drain(PoolHead& h) noexcept {
    for (std::byte *p = h.take_remote(), *next; p; p = next) {
      next = link_of(p);
      put(*ground_.range.segment_of(p), p);
    }
  }
  /// The next head behind `h`, of all, whose thread has ended and of whose objects others have released some. It is ours, and in no list of
  /// orphans, until `orphan`. O(heads).
  PoolHead* take_orphan(PoolHead* h) noexcept {
    Held held(ground_.lock);
    for (h = h ? h->next_head : heads_; h; h = h->next_head) {
      if (h->owner.load(Order::relaxed) != PoolHead::nobody() || !h->remote.load(Order::relaxed)) continue;
      PoolHead** link = &h->pool->orphans;
      while (*link != h) link = &(*link)->next_orphan;
      *link = h->next_orphan;
      h->owner.store(this, Order::relaxed);
      return h;
    }
    return nullptr;
  }
  static Mixed* mixed_of(const PoolHead& h) noexcept { return static_cast<Mixed*>(h.mixed); }
  template <class Each> void each_mixed(Each&& each) noexcept {
    Held held(mixed_lock_);
    for (Mixed* m = mixed_; m; m = m->next) each(*m);
  }
  bool serve_mixed(Pool& pool) noexcept {
    Held held(mixed_lock_);
    if (pool.mixed) return true;
    std::byte* memory;
    {
      Held inner(ground_.lock);
      memory = ground_.meta.take(sizeof(Mixed));
    }
    if (!memory) return false;
    auto* const m = new (memory) Mixed{};
    if (!m->start(ground_, pool, page_bytes_)) return false;
    m->next = mixed_;
    mixed_ = m;
    pool.mixed = m;
    return true;
  }
  PoolHead* make_head(Pool& pool) noexcept {
    auto* const h = reinterpret_cast<PoolHead*>(ground_.meta.take(sizeof(PoolHead)));
    if (!h) return nullptr;
    h->pool = &pool;
    h->is_forwarding = pool.is_forwarding;
    h->mixed = pool.mixed;
    h->current = &none_;
    h->next_head = heads_;
    return heads_ = h;
  }

  PoolGround<kSegmentBytes> ground_;
  FutexLock mixed_lock_;  ///< which mixed pools there are; taken before any of their locks, and before the ground's
  Mixed* mixed_ = nullptr;
  Mixed* held_ = nullptr;  ///< by lock_all, the last one first
  Preset<4_KiB> page_bytes_;
  PoolHead** idle_pages_ = nullptr;
  PoolHead* heads_ = nullptr;  ///< all, the newest first
  PoolSegment none_ = {};  ///< the current segment of a head that has none: nothing free, nothing fresh
};

}  // namespace mortise
