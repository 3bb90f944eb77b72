// Where segments of pools come from: one range of addresses, mapped from its front in chunks as it is needed, so that "is this
// pointer in a pool, and in which segment?" is a subtraction, a comparison and a shift.
//
//   origin                              origin + extent                                 origin + kReach
//   ┌─────────┬─────────┬─────────┬──────────┬─────────────────────────────────────────────┐
//   │ extent  │ extent  │ free    │ extent   │ nothing mapped yet                          │
//   └─────────┴─────────┴─────────┴──────────┴─────────────────────────────────────────────┘
//
// Nothing is reserved, so limits on address space count what is used. The range lies where no heap's window does (os/window.hpp).
// Free segments are handed out again one by one once there are some; their pages go back to the system when they stay free.
// An object may end in the segment behind its own, whose page is held by it, free as that may be.
// Chunks beyond the first 8 MiB ask for huge pages, until segments of theirs go back: pools then are large enough for a step of
// 2 MiB to be a small part, and for first touches and TLB misses to matter.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/os/window.hpp"
#include "mortise/route/pool_segment.hpp"
#include "mortise/route/size_gate.hpp"

namespace mortise {

/// Who counts what pools take: the heap below, where that has a limit.
struct PoolMeter {
  void* heap = nullptr;
  bool (*asked)(void* heap, std::size_t bytes) noexcept = nullptr;
  void (*told)(void* heap, std::size_t bytes) noexcept = nullptr;

  template <class Below> static PoolMeter of([[maybe_unused]] Below& below) noexcept {
    if constexpr (ChargesBeside<Below>)
      return {&below, [](void* h, std::size_t n) noexcept { return static_cast<Below*>(h)->charge_beside(n); },
              [](void* h, std::size_t n) noexcept { static_cast<Below*>(h)->uncharge_beside(n); }};
    else return {};
  }
  bool charge(std::size_t bytes) const noexcept { return !asked || asked(heap, bytes); }
  void uncharge(std::size_t bytes) const noexcept {
    if (told && bytes) told(heap, bytes);
  }
};

/// Not synchronised but for what is marked: its owner holds a lock. O(1) but for the kernel's work.
template <std::size_t kSegmentBytes> class PoolRange {
  static_assert(is_power_of_two(kSegmentBytes) && kSegmentBytes >= 1_KiB && kSegmentBytes <= 64_KiB,
                "a segment has between 1 and 64 KiB");

 public:
  static constexpr std::size_t kReach = os::kWindowBytesMax / 64;
  static constexpr std::size_t kChunk = 2_MiB;  ///< mapped at a time; as large as a huge page and as aligned
  static constexpr unsigned kSegmentLog2 = log2_floor(kSegmentBytes);
  static constexpr std::uint32_t kPerChunk = kChunk / kSegmentBytes;
  static constexpr std::uint32_t kExtentMax = 256_KiB / kSegmentBytes;

  /// True for any address in what is mapped. From any thread; O(1).
  MORTISE_HOT bool holds(const std::byte* p) const noexcept { return static_cast<std::size_t>(p - origin_) < glance(mapped_); }
  MORTISE_HOT PoolSegment* segment_of(const std::byte* p) const noexcept {
    return segments_ + (static_cast<std::size_t>(p - origin_) >> kSegmentLog2);
  }
  std::byte* memory_of(const PoolSegment* s) const noexcept {
    return origin_ + (static_cast<std::size_t>(s - segments_) << kSegmentLog2);
  }

  /// Chooses the place. Segments smaller than a page stay resident until their whole chunk is free.
  bool start(std::size_t page_bytes, PoolMeter meter) noexcept {
    meter_ = meter;
    can_purge_segments_ = kSegmentBytes % page_bytes == 0;
    constexpr std::uintptr_t kLowest = os::kWindowLowest / 2;
    constexpr std::size_t kSpread = os::kWindowLowest / 2 - kReach - kTable;
    if (origin_) return true;
    std::byte* const at = reinterpret_cast<std::byte*>(kLowest + os::entropy() % (kSpread / kChunk) * kChunk);
    segments_ = reinterpret_cast<PoolSegment*>(at + kReach);
    origin_ = at;
    return true;
  }
  /// What chunks that are mapped from now on say about huge pages: nothing but beyond `kHugeFrom` of them, never any, or all of them, and
  /// extents as large as they are.
  void set_huge(HugePages pages) noexcept { huge_ = pages; }

  /// The next segment for `h`: of its extent, one that is free again, or the first of a new extent, twice as large as the last.
  /// Null when the system or the meter refuses.
  PoolSegment* take(PoolHead& h) noexcept {
    const bool is_of_extent = h.extent_next != h.extent_end || (free_count_ <= kKept && take_extent(h));
    PoolSegment* const s = is_of_extent ? segments_ + h.extent_next : free_;
    if (!s || (s->state != SegmentState::free_dirty && !meter_.charge(kSegmentBytes))) return nullptr;
    if (is_of_extent) ++h.extent_next;
    else pop_free();
    give_to(s, h, is_of_extent && h.extent_next != h.extent_end);
    return s;
  }
  /// `n` segments in a row, of one chunk, which have no one size for their objects. Null when the system or the meter refuses.
  std::byte* take_run(PoolHead& h, std::size_t n) noexcept {
    if (chunk_end_ - next_ < n) {
      while (next_ != chunk_end_) {
        ++used_[next_ / kPerChunk];
        give_back(segments_ + next_++, SegmentState::free_clean);
      }
      if (!take_chunk()) return nullptr;
    }
    if (!meter_.charge(n * kSegmentBytes)) return nullptr;
    PoolSegment* const first = segments_ + next_;
    used_[next_ / kPerChunk] += static_cast<std::uint16_t>(n);
    for (next_ += static_cast<std::uint32_t>(n); n; --n) {
      PoolSegment& s = first[n - 1];
      s = {};
      s.live = 1;
      s.state = SegmentState::full;
      show(s.head, &h);
    }
    return memory_of(first);
  }
  std::byte* origin() const noexcept { return origin_; }
  /// The segment is empty and out of its head's lists.
  void give_back(PoolSegment* s, SegmentState as = SegmentState::free_dirty) noexcept {
    if (s->end > memory_of(s + 1)) give_back_front(s[1]);
    s->state = as;
    s->stamp = round_;
    show(s->head, static_cast<PoolHead*>(nullptr));
    s->prev = nullptr;
    s->next = free_;
    free_ = s;
    ++free_count_;
    if (as == SegmentState::free_dirty) add_idle(*s, kSegmentBytes);
    const std::uint32_t chunk = static_cast<std::uint32_t>(s - segments_) / kPerChunk;
    if (--used_[chunk] == 0) segments_[chunk * kPerChunk].stamp = round_;
  }
  /// The head will not take the rest of its extent.
  void give_back_extent(PoolHead& h) noexcept {
    while (h.extent_next != h.extent_end) give_back(segments_ + h.extent_next++, SegmentState::free_clean);
    h.extent_segments = 0;
  }

  /// Gives back what has been free for `rounds` calls of this: the pages of segments, and whole chunks. Returns the bytes.
  std::size_t purge(std::uint8_t rounds) noexcept {
    ++round_;
    const std::size_t before = dirty_bytes();
    std::size_t given = unmap_empty(rounds);
    for (PoolSegment* s = free_; s && can_purge_segments_ && dirty_bytes(); s = s->next) {
      if (s->state != SegmentState::free_dirty || s->skip || static_cast<std::uint8_t>(round_ - s->stamp) < rounds) continue;
      calm(static_cast<std::uint32_t>(s - segments_) / kPerChunk);
      if (!os::purge(memory_of(s), kSegmentBytes)) continue;
      s->state = SegmentState::free_clean;
      given += kSegmentBytes;
      add_dirty(-kSegmentBytes);
    }
    meter_.uncharge(before - dirty_bytes());
    return given;
  }
  std::size_t dirty_bytes() const noexcept { return dirty_bytes_.load(Order::relaxed); }

  /// Adds what lies in the range to `u`, but for the inside of runs. Counts that threads change meanwhile are read as they are.
  void tell(Usage& u) noexcept {
    u.mapped += mapped_bytes_;
    u.meta += table_bytes_;
    std::size_t live = 0, used = 0, mixed = 0;
    for (std::uint32_t i = 0; i < end(); ++i) {
      const PoolSegment& s = segments_[i];
      if (!glance(s.head)) continue;
      live += std::size_t{glance(s.live)} * s.stride;
      (s.stride ? used : mixed) += kSegmentBytes;
    }
    u.live += live;
    u.cached += used > live ? used - live : 0;  // the last object of a full one may lie in one that is still to come
    u.dirty += dirty_bytes() + held_bytes_;
    u.purged += mapped_bytes_ - used - mixed - dirty_bytes() - held_bytes_;
  }
  /// Segments that were ever handed out have numbers below this.
  std::uint32_t end() const noexcept { return chunk_end_ == chunks_ * kPerChunk ? next_ : chunks_ * kPerChunk; }
  PoolSegment& at(std::uint32_t i) const noexcept { return segments_[i]; }

 private:
  static constexpr std::size_t kLine = 64;
  /// Objects of up to so many bytes may end in the next segment, of which most is left for others then.
  static constexpr std::size_t kRunsOnMax = kSegmentBytes < 4_KiB ? 0 : SizeGate::kClasses * kMinAlign;
  static constexpr std::size_t kTable = kReach / kSegmentBytes * sizeof(PoolSegment);
  static constexpr std::uint32_t kChunks = kReach / kChunk;
  static constexpr std::uint16_t kHole = 0xffff, kForeign = 0xfffe;
  static constexpr std::uint32_t kKept = 64;  ///< so many free ones before new extents give way to them
  static constexpr std::uint32_t kHugeFrom = 8_MiB / kChunk;

  void add_dirty(std::size_t n) noexcept { dirty_bytes_.store(dirty_bytes() + n, Order::relaxed); }
  /// What is free and dirty: waiting to be purged, or held by an object that ends in it.
  void add_idle(const PoolSegment& s, std::size_t n) noexcept {
    if (s.skip) held_bytes_ += n;
    else add_dirty(n);
  }
  /// The object of the segment before is gone. Where the page was not in use, that object's end is all that it was touched for.
  void give_back_front(PoolSegment& s) noexcept {
    const bool is_dirty = s.state == SegmentState::free_dirty;
    if (s.state == SegmentState::free_clean && can_purge_segments_) os::purge(memory_of(&s), kSegmentBytes);
    if (is_dirty) add_idle(s, -kSegmentBytes);
    s.skip = 0;
    if (is_dirty) add_idle(s, kSegmentBytes);
  }
  void pop_free() noexcept {
    const PoolSegment* const s = free_;
    free_ = s->next;
    --free_count_;
    if (s->state == SegmentState::free_dirty) add_idle(*s, -kSegmentBytes);
    ++used_[static_cast<std::uint32_t>(s - segments_) / kPerChunk];
  }
  /// `runs_on`: the segment behind comes to `h` next, and may have the end of an object. What another head's object ends in begins with
  /// its next line.
  void give_to(PoolSegment* s, PoolHead& h, bool runs_on) noexcept {
    const std::size_t stride = h.pool->stride();
    show(s->stride, static_cast<std::uint32_t>(stride));
    s->free = nullptr;
    const std::size_t before = s->skip * kMinAlign, skip = before && s[-1].head != &h ? round_up(before, kLine) : before;
    show(s->first, static_cast<std::uint8_t>(skip / kMinAlign));
    s->fresh = memory_of(s) + skip;
    runs_on &= stride <= kRunsOnMax;
    const std::size_t room = kSegmentBytes - skip + (runs_on ? stride - kMinAlign : 0);
    show(s->end, s->fresh + room / stride * stride);
    if (runs_on) {
      s[1].skip = static_cast<std::uint8_t>(static_cast<std::size_t>(s->end - memory_of(s + 1)) / kMinAlign);
      show(s[1].first, s[1].skip);
    }
    s->next = s->prev = nullptr;
    s->notice = PoolSegment::kNever;
    show(s->live, std::uint32_t{0});
    s->state = SegmentState::current;
    show(s->head, &h);
  }
  bool take_extent(PoolHead& h) noexcept {
    const std::uint32_t most = huge_ == HugePages::madvise ? kPerChunk : kExtentMax;
    if (next_ == chunk_end_ && !take_chunk()) return false;
    std::uint32_t n = h.extent_segments ? h.extent_segments : 1;
    if (n > chunk_end_ - next_) n = chunk_end_ - next_;
    h.extent_next = next_;
    h.extent_end = next_ + n;
    next_ += n;
    used_[(next_ - 1) / kPerChunk] += n;
    if (h.extent_segments < most) h.extent_segments = n * 2 < most ? n * 2 : most;
    return true;
  }
  /// A chunk that was given back, or the next one that nobody else occupies; mapped, with its descriptors.
  bool take_chunk() noexcept {
    for (std::uint32_t c = 0; holes_ && c < chunks_; ++c)
      if (used_[c] == kHole && map_chunk(c) == os::MapAt::done) return --holes_, true;
    while (chunks_ < kChunks) {
      const os::MapAt result = map_chunk(chunks_);
      if (result == os::MapAt::refused) return false;
      if (result == os::MapAt::taken) used_[chunks_] = kForeign;
      show(mapped_, ++chunks_ * kChunk);
      if (result == os::MapAt::done) return true;
    }
    return false;
  }
  os::MapAt map_chunk(std::uint32_t c) noexcept {
    std::byte* const at = origin_ + c * kChunk;
    constexpr std::size_t kBytes = kPerChunk * sizeof(PoolSegment);
    if (!back_table(reinterpret_cast<std::byte*>(segments_) + (c + 1) * kBytes)) return os::MapAt::refused;
    const os::MapAt result = os::map_at(at, kChunk);
    if (result != os::MapAt::done) return result;
    asks_[c] = huge_ == HugePages::madvise || (huge_ == HugePages::automatic && c >= kHugeFrom);
    if (asks_[c]) os::advise_huge(at, kChunk);
    if (huge_ == HugePages::never) os::advise_no_huge(at, kChunk);
    mapped_bytes_ += kChunk;
    used_[c] = 0;
    next_ = c * kPerChunk;
    chunk_end_ = next_ + kPerChunk;
    return os::MapAt::done;
  }
  /// Pages of the chunk go back: the kernel is not to make a huge one of what is left.
  void calm(std::uint32_t c) noexcept {
    if (!asks_[c] || huge_ == HugePages::madvise) return;
    os::advise_no_huge(origin_ + c * kChunk, kChunk);
    asks_[c] = false;
  }
  /// Unmaps chunks of which every segment is free.
  std::size_t unmap_empty(std::uint8_t rounds) noexcept {
    std::size_t given = 0;
    for (std::uint32_t c = 0; c < chunks_; ++c) {
      const std::uint32_t first = c * kPerChunk;
      if (used_[c] != 0 || chunk_end_ == first + kPerChunk) continue;
      if (static_cast<std::uint8_t>(round_ - segments_[first].stamp) < rounds) continue;
      for (PoolSegment** link = &free_; *link;) {
        PoolSegment* const s = *link;
        if (static_cast<std::uint32_t>(s - segments_) / kPerChunk != c) {
          link = &s->next;
          continue;
        }
        *link = s->next;
        --free_count_;
        if (s->state == SegmentState::free_dirty) add_dirty(-kSegmentBytes);
        s->state = SegmentState::none;
      }
      os::unmap(origin_ + c * kChunk, kChunk);
      mapped_bytes_ -= kChunk;
      given += kChunk;
      used_[c] = kHole;
      ++holes_;
    }
    return given;
  }
  bool back_table(const std::byte* end) noexcept {
    constexpr std::size_t kStep = 64_KiB;
    auto* const table = reinterpret_cast<std::byte*>(segments_);
    while (table + table_bytes_ < end) {
      if (os::map_at(table + table_bytes_, kStep) != os::MapAt::done) return false;
      table_bytes_ += kStep;
    }
    return true;
  }

  // The first line is what free() reads.
  std::byte* origin_ = nullptr;
  std::size_t mapped_ = 0;           ///< bytes from origin_ on that may hold objects
  PoolSegment* segments_ = nullptr;
  std::uint32_t next_ = 0;           ///< the first segment of the newest chunk that no extent has had
  std::uint32_t chunk_end_ = 0;
  std::uint32_t chunks_ = 0;         ///< ever mapped, or found occupied
  std::uint32_t holes_ = 0;          ///< given back since
  std::uint32_t free_count_ = 0;
  PoolSegment* free_ = nullptr;
  PoolMeter meter_;
  Atomic<std::size_t> dirty_bytes_{0};  ///< read by whoever asks whether purging is worth it
  std::size_t mapped_bytes_ = 0, table_bytes_ = 0, held_bytes_ = 0;
  std::uint8_t round_ = 0;
  bool can_purge_segments_ = false;
  HugePages huge_ = HugePages::automatic;
  std::uint16_t used_[kChunks] = {};  ///< of each chunk: segments that heads have or may still take from their extents
  bool asks_[kChunks] = {};           ///< of each chunk: whether it asks for huge pages
};

}  // namespace mortise
