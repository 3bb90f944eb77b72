// If this fails, a slab that waits with its wall is given out twice, without its wall, or not at all, or what waits is counted wrong, so
// that too much waits or nothing any more: the shipped layer is run in every interleaving that matters, over so many places and no more.
#include "mortise/guard/guard_pages.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

#include "running.hpp"

namespace mortise {

[[noreturn]] void report(Fault fault, mortise::Block) noexcept {
  model::require(false, name_of(fault));
  std::abort();
}

}  // namespace mortise

namespace mortise::model {
namespace {

constexpr std::size_t kGranule = 8_KiB, kPage = 4_KiB, kMost = 1_MiB;
constexpr std::uintptr_t kOrigin = std::uintptr_t{1} << 40;
constexpr unsigned kPlaces = 4, kNone = kPlaces, kPlaceGranules = kMost / kGranule + 1;  // one may be all that waits, and its wall

/// Addresses for the places, which nobody touches, and memory for the tables.
class Window {
 public:
  struct Thread {};
  using Classes = NoClasses;
  static constexpr Progress kProgress = Progress::of(Guarantee::lock_free);
  static constexpr std::size_t kGranule = model::kGranule, kReach = kPlaces * kPlaceGranules * kGranule;

  mortise::Block allocate(Thread&, Request r) noexcept { return {origin(), r.size}; }
  void release(Thread&, mortise::Block) noexcept {}
  std::byte* origin() noexcept { return reinterpret_cast<std::byte*>(kOrigin); }
  std::byte* side(std::size_t bytes) noexcept { return used_ += bytes, used_ <= sizeof tables_ ? tables_ + used_ - bytes : nullptr; }
  bool back_side(std::byte*, std::size_t) noexcept { return true; }

 private:
  std::size_t used_ = 0;
  alignas(64) std::byte tables_[96_KiB] = {};
};

/// What lies below: a free place for whoever asks, as large as asked for, with a tail as SpanCache gives them.
class Spans : public Passthrough<PageIndex::Over<Window>> {
 public:
  static constexpr unsigned kAll = (1u << kPlaces) - 1;

  mortise::Block allocate(Thread&, Request r) noexcept {
    unsigned free = free_.load(Order::acquire);
    do {
      if (!free) return {};
    } while (!free_.compare_exchange_strong(free, free & (free - 1), Order::acq_rel));
    const unsigned head = static_cast<unsigned>(std::countr_zero(free)) * kPlaceGranules;
    Span* const s = page_index().set_span(head, static_cast<std::uint32_t>(round_up(r.size, kGranule) / kGranule), SpanState::large);
    s->tail_pages = (page_index().bytes_of(s) - r.size) / kPage & 0x7fff;
    return {page_index().base_of(s), r.size};
  }
  void release(Thread&, mortise::Block b) noexcept {
    Span* const s = page_index().span_of(b.ptr);
    require(s->state == SpanState::large, "what comes back is not a block");
    s->tail_pages = 0;
    const unsigned bit = 1u << s->head / kPlaceGranules;
    require((free_.fetch_or(bit, Order::acq_rel) & bit) == 0, "a slab comes back twice");
  }
  std::size_t trim(Thread&) noexcept { return 0; }
  void tell(Usage&) noexcept {}
  unsigned free_places() const { return free_.load(Order::relaxed); }

 private:
  Atomic<unsigned> free_{kAll};
};

struct Walls {
  Shared<int> wall[kPlaces];
};
Walls* g_walls = nullptr;
unsigned place_of(const std::byte* p) { return static_cast<unsigned>((address_of(p) - kOrigin) / kGranule / kPlaceGranules); }

/// A program with slabs of `kSmall` and others, of which `kWalls` may have a wall.
template <unsigned kWalls = 16> struct Slabs : Walls {
  static constexpr bool kAllWalled = kWalls >= kPlaces;
  static constexpr std::size_t kSmall = kGranule, kLarger = 2 * kGranule, kHalf = kMost / 2;
  typename GuardPages<kWalls, false>::template Over<Spans> heap;
  Window::Thread thread;
  Shared<std::size_t> owned[kPlaces];  // bytes, of whoever holds the place

  Slabs() {
    g_walls = this;
    os::Guards::tell = [](std::byte* at, bool stands) {
      Shared<int>& there = g_walls->wall[place_of(at)];
      require(!stands || !there.get(), "a wall is made twice");
      require(stands || there.get() || !kAllWalled, "a wall is taken down that is none");
      there.set(stands);
    };
    heap.start({});
    heap.page_index().allocate(thread, {.size = Window::kReach});
  }
  unsigned take(std::size_t bytes) {
    const mortise::Block b = heap.allocate(thread, {.size = bytes});
    if (!b) return kNone;
    const unsigned i = place_of(b.ptr);
    require(owned[i] == 0, "a slab was handed out twice");
    const std::size_t behind = heap.page_index().used_bytes_of(heap.page_index().span_of(b.ptr)) - bytes;
    require(b.size == bytes && (behind == kPage || (behind == 0 && !kAllWalled)), "a slab of another size was handed out");
    require(has_wall(i) || !kAllWalled, "a slab has lost its wall");
    owned[i] = bytes;
    return i;
  }
  bool has_wall(unsigned i) { return this->wall[i].get(); }
  void give(unsigned i) {
    if (i == kNone) return;
    std::byte* const p = heap.page_index().granule_at(i * kPlaceGranules);
    owned[i] = 0;
    heap.release(thread, {p, heap.page_index().bytes_of(heap.page_index().span_of(p)), kNoClass});
  }
  void trim() { heap.trim(thread); }
  unsigned free_places() { return heap.below.free_places(); }

  /// Each place is owned, free or kept; what is kept comes back by a trim. Then as much can be kept as ever, and no more.
  void finish() {
    Usage u;
    heap.tell(u);
    require(u.dirty <= kMost, "more waits than may");
    trim();
    for (unsigned i = 0; i < kPlaces; ++i) {
      const bool is_free = free_places() >> i & 1;
      require(!is_free || owned[i] == 0, "a slab is free and with the program");
      require(is_free || owned[i] != 0, "a slab is lost");
      require(!has_wall(i) || owned[i] != 0, "a wall stands in what is free");
    }
    for (unsigned i = 0; i < kPlaces; ++i)
      if (owned[i]) give(i);
    trim();
    require(free_places() == Spans::kAll, "a slab is lost");
    Usage none;
    heap.tell(none);
    require(none.cached == 0 && none.dirty == 0, "walls or slabs are counted that are none");
    const unsigned whole = take(kMost), more = take(kSmall);
    give(whole);
    require(!(free_places() >> whole & 1), "the count of what waits is too high");
    give(more);
    require(free_places() >> more & 1, "the count of what waits is too low");
  }
};

struct TwoTakeWhatWaits : Slabs<> {
  static constexpr unsigned kThreads = 2;
  TwoTakeWhatWaits() { give(take(kSmall)); }
  void run(unsigned) { require(take(kSmall) != kNone, "no slab although there is memory"); }
};
struct KeepAgainstTake : Slabs<> {
  static constexpr unsigned kThreads = 2;
  const unsigned slab = take(kSmall);
  void run(unsigned number) {
    if (number == 0) give(slab);
    else give(take(kSmall));
  }
};
/// Where ABA would strike: what a thread has seen is taken, comes back, goes and comes back while it thinks.
struct ItComesBack : Slabs<> {
  static constexpr unsigned kThreads = 2;
  ItComesBack() { give(take(kSmall)); }
  void run(unsigned number) {
    if (number == 0) return void(take(kSmall));
    give(take(kSmall));
    give(take(kSmall));
  }
};
/// ... or something larger comes to wait where it was.
struct ALargerComesBack : Slabs<> {
  static constexpr unsigned kThreads = 2;
  const unsigned larger;
  ALargerComesBack() : larger(take(kLarger)) { give(take(kSmall)); }
  void run(unsigned number) {
    const unsigned small = take(kSmall);
    if (number == 0) return;
    give(larger);
    give(small);
  }
};
/// Of three there is room for two.
struct ThereIsRoomForTwo : Slabs<> {
  static constexpr unsigned kThreads = 2;
  unsigned slab[2];
  ThereIsRoomForTwo() {
    const unsigned first = take(kHalf);
    for (unsigned& s : slab) s = take(kHalf);
    give(first);
  }
  void run(unsigned number) { give(slab[number]); }
};
struct TrimAgainstTakeAndKeep : Slabs<> {
  static constexpr unsigned kThreads = 2;
  TrimAgainstTakeAndKeep() { give(take(kSmall)); }
  void run(unsigned number) {
    if (number == 0) trim();
    else give(take(kSmall));
  }
};
struct TwoTrim : Slabs<> {
  static constexpr unsigned kThreads = 2;
  TwoTrim() {
    const unsigned a = take(kSmall), b = take(kLarger);
    give(a), give(b);
  }
  void run(unsigned) { trim(); }
};
/// There is no memory but what waits, which is too small: it goes below and comes back larger.
struct NoMemory : Slabs<> {
  static constexpr unsigned kThreads = 2;
  NoMemory() {
    const unsigned a = take(kSmall), b = take(kSmall);
    take(kSmall), take(kSmall);
    give(a), give(b);
  }
  void run(unsigned number) { require(take(number ? kSmall : kLarger) != kNone, "no slab although enough wait"); }
};
/// One wall, and it waits: whoever wants another one takes it down.
struct OneWall : Slabs<1> {
  static constexpr unsigned kThreads = 2;
  OneWall() { give(take(kSmall)); }
  void run(unsigned number) { give(take(number ? kSmall : kLarger)); }
};
/// Two want the one wall at once.
struct TheLastWall : Slabs<1> {
  static constexpr unsigned kThreads = 2;
  unsigned slab[2];
  void run(unsigned number) { slab[number] = take(kSmall); }
  void finish() {
    require(has_wall(slab[0]) != has_wall(slab[1]), "not one of two got the wall");
    Slabs<1>::finish();
  }
};
/// Three threads: one keeps, one takes, and keeps unless `kTakes`, one trims or does as the second.
template <bool kTakes, bool kTrims> struct Three : Slabs<> {
  static constexpr unsigned kThreads = 3;
  const unsigned slab = take(kSmall);
  Three() { give(take(kSmall)); }
  void run(unsigned number) {
    if (number == 0) give(slab);
    else if (number == 1 || !kTrims) kTakes ? void(take(kSmall)) : give(take(kSmall));
    else trim();
  }
};

/// A fork while another thread trims: in the child each slab must be somebody's.
struct ForkDuringATrim : Slabs<> {
  static constexpr unsigned kThreads = 2;
  ForkDuringATrim() {
    const unsigned a = take(kSmall), b = take(kSmall);
    give(a), give(b);
  }
  void run(unsigned number) {
    if (number == 0) return trim();
    heap.lock_all();
    Usage u;
    heap.tell(u);
    require(static_cast<unsigned>(std::popcount(free_places())) + u.dirty / kSmall == kPlaces, "a fork finds a slab that is nobody's");
    heap.unlock_all();
  }
};

TEST(GuardPages, TwoTakeWhatWaits) { check<TwoTakeWhatWaits>("two take what waits"); }
TEST(GuardPages, KeepAgainstTake) { check<KeepAgainstTake>("a keep against a take and a keep"); }
TEST(GuardPages, ItComesBack) { check<ItComesBack>("a take against takes and keeps"); }
TEST(GuardPages, ALargerComesBack) { check<ALargerComesBack>("a take against keeps of two sizes"); }
TEST(GuardPages, ThereIsRoomForTwo) { check<ThereIsRoomForTwo>("three keeps of half of what may wait"); }
TEST(GuardPages, TrimAgainstTakeAndKeep) { check<TrimAgainstTakeAndKeep>("a trim against a take and a keep"); }
// Two take the lock: whoever is stopped in it keeps the other waiting, as locks do.
TEST(GuardPages, TwoTrim) { run<TwoTrim>("two trims"); }
TEST(GuardPages, ForkDuringATrim) { run<ForkDuringATrim>("a fork during a trim"); }
TEST(GuardPages, NoMemory) { check<NoMemory>("no memory but what waits"); }
TEST(GuardPages, OneWall) { check<OneWall>("one wall for two"); }
TEST(GuardPages, TheLastWall) { check<TheLastWall>("two want the last wall"); }
TEST(GuardPages, Three) {
  check<Three<true, true>>("a keep, a take and a trim");
  check<Three<true, false>>("a keep and two takes");
  if (kAll) check<Three<false, true>>("a keep, a take and a keep, and a trim");
}
TEST(GuardPages, EveryOrderIsNeeded) {
  EXPECT_EQ((needless_orders<TwoTakeWhatWaits, KeepAgainstTake, ItComesBack>("GuardPages")), std::vector<std::string>{});
}

}  // namespace
}  // namespace mortise::model
