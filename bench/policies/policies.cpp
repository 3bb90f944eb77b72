// One stack a policy, the same calls on each: for counting what an answer to a slot costs.
//
//   policies --list               the slots and their answers, a line each
//   policies SLOT ANSWER PAIRS    PAIRS of malloc and free on that stack, by one thread; prints what it held at the end as JSON
//
// Untimed: run it under callgrind with two numbers of pairs; the difference is what a pair costs in instructions (run.py does). The
// calls: a table of a thousand blocks of 16 to 1000 bytes, mostly small, one replaced at random at each step.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mortise/allocators/segfit.hpp"
#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/backbone/buddy.hpp"
#include "mortise/backbone/slab.hpp"
#include "mortise/backbone/sub_heaps.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/backbone/wait_free_slab.hpp"
#include "mortise/cache/slab_array_cache.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/cache/span_reserve.hpp"
#include "mortise/cache/thread_cache.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/source/brk_heap.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/source/shared_heap.hpp"
#include "mortise/source/static_heap.hpp"
#include "mortise/sync/cc_synch_lock.hpp"
#include "mortise/sync/combining_lock.hpp"
#include "mortise/sync/flat_combining_lock.hpp"
#include "mortise/sync/mcs_lock.hpp"
#include "mortise/sync/spin_lock.hpp"
#include "mortise/sync/ticket_lock.hpp"
#include "mortise/sync/unsynchronised.hpp"

namespace mortise {

void report(Fault fault, Block) noexcept {
  std::fprintf(stderr, "policies: %s\n", name_of(fault));
  std::abort();
}

namespace bench {
namespace {

constexpr std::size_t kSlots = 1000;

thread_local os::OwnArea own_area{};

template <class Heap> void run(std::size_t pairs) {
  static Heap heap{};
  static typename Heap::Thread thread{};
  static std::byte* slot[kSlots];
  static std::size_t asked[kSlots];
  start_below(heap, os::read_facts(&own_area));
  attach_below(heap, thread);
  std::uint64_t state = 88172645463325252u;
  const auto random = [&state](std::uint32_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<std::uint32_t>((state >> 32) * n >> 32);
  };
  for (std::size_t n = 0; n < pairs; ++n) {
    const std::uint32_t i = random(kSlots);
    if (slot[i]) {
      Block b = heap.block_of(slot[i]);
      if (b.size_class == kNoClass) b = heap.measure(b);
      heap.release(thread, b);
    }
    const std::uint32_t range = 16u << random(6);
    asked[i] = range + random(range);
    slot[i] = heap.allocate(thread, {.size = asked[i]}).ptr;
    if (!slot[i]) std::abort();
  }
  std::size_t wanted = 0, given = 0;
  for (std::size_t i = 0; i < kSlots; ++i)
    if (slot[i]) wanted += asked[i], given += heap.measure(heap.block_of(slot[i])).size;
  Usage u;
  tell_below(heap, u);
  std::printf("{\"asked_bytes\":%zu,\"block_bytes\":%zu,\"cached_bytes\":%zu,\"mapped_bytes\":%zu}\n", wanted, given, u.cached, u.mapped);
}

template <class... L> using Spans = Stack<Layers<L..., SpanCache<purge::Never>, PageIndex, MmapHeap<>>>;
template <class Sync> using OneLock = Stack<Layers<Tlsf<Sync>, MmapHeap<>>>;
template <class Bin>
using Bins = Stack<Layers<SegregatedFit<classes::Geometric<8>, Bin>, SpanCache<purge::Never>, PageIndex, StaysMapped, MmapHeap<>>>;
template <class Fit> using Tags = Stack<Layers<BoundaryTag<Fit, Unsynchronised, purge::Never>, MmapHeap<>>>;
template <class Classes, class Fit = fit::FullestFirst> using Slabs = Spans<Slab<Classes, Unsynchronised, Fit>>;
template <class Purge> using Pages = Stack<Layers<SpanCache<Purge, huge::Never, Unsynchronised>, PageIndex, MmapHeap<4_KiB>>>;
template <class Rule> using Shares = Stack<Layers<SubHeaps<fit::BestFit, Rule>, SharedHeap<>>>;
template <class Source> using Over = Stack<Layers<Tlsf<Unsynchronised>, Source>>;

struct Arm {
  const char *slot, *answer;
  void (*run)(std::size_t pairs);
};
constexpr Arm kArms[] = {
    {"Sync", "Unsynchronised", run<OneLock<Unsynchronised>>},
    {"Sync", "SpinLock", run<OneLock<SpinLock>>},
    {"Sync", "TicketLock", run<OneLock<TicketLock>>},
    {"Sync", "McsLock", run<OneLock<McsLock>>},
    {"Sync", "FutexLock", run<OneLock<FutexLock>>},
    {"Sync", "CombiningLock", run<OneLock<CombiningLock<>>>},
    {"Sync", "CcSynchLock", run<OneLock<CcSynchLock<>>>},
    {"Sync", "FlatCombiningLock", run<OneLock<FlatCombiningLock<>>>},
    {"Sync of SegregatedFit", "LockFreeBin", run<Bins<LockFreeBin>>},
    {"Sync of SegregatedFit", "LockedBin<FutexLock>", run<Bins<LockedBin<FutexLock>>>},
    {"Sync of SegregatedFit", "LockedBin<TicketLock>", run<Bins<LockedBin<TicketLock>>>},
    {"Sync of SegregatedFit", "LockedBin<Unsynchronised>", run<Bins<LockedBin<Unsynchronised>>>},
    {"Sync of slabs", "Unsynchronised", run<Slabs<classes::Geometric<8>>>},
    {"Sync of slabs", "FutexLock", run<Spans<Slab<classes::Geometric<8>, FutexLock>>>},
    {"Sync of slabs", "TicketLock", run<Spans<Slab<classes::Geometric<8>, TicketLock>>>},
    {"Sync of slabs", "WaitFreeSlab", run<Spans<WaitFreeSlab<>, SpanReserve<>>>},
    {"Distribution of sub-heaps", "by_thread_in_turn", run<Shares<by_thread_in_turn>>},
    {"Distribution of sub-heaps", "by_thread_hash", run<Shares<by_thread_hash>>},
    {"Distribution of sub-heaps", "by_core", run<Shares<by_core>>},
    {"Fit of boundary tags", "FirstFit", run<Tags<fit::FirstFit>>},
    {"Fit of boundary tags", "NextFit", run<Tags<fit::NextFit>>},
    {"Fit of boundary tags", "BestFit", run<Tags<fit::BestFit>>},
    {"Fit of boundary tags", "GoodFit", run<Tags<fit::GoodFit>>},
    {"Fit of slabs", "FullestFirst", run<Slabs<classes::Geometric<8>>>},
    {"Fit of slabs", "LatestFirst", run<Slabs<classes::Geometric<8>, fit::LatestFirst>>},
    {"SizeClasses", "PowerOfTwo", run<Slabs<classes::PowerOfTwo<>>>},
    {"SizeClasses", "Geometric<4>", run<Slabs<classes::Geometric<4>>>},
    {"SizeClasses", "Geometric<8>", run<Slabs<classes::Geometric<8>>>},
    {"SizeClasses", "ExactSmall<1 KiB, 4>", run<Slabs<classes::ExactSmall<>>>},
    {"Purge", "Never", run<Pages<purge::Never>>},
    {"Purge", "AtOnce", run<Pages<purge::AtOnce>>},
    {"Purge", "AfterDelay<100>", run<Pages<purge::AfterDelay<100>>>},
    {"Purge", "ByteCap<1 MiB>", run<Pages<purge::ByteCap<1_MiB>>>},
    {"backbone", "Tlsf", run<OneLock<Unsynchronised>>},
    {"backbone", "Buddy", run<Stack<Layers<Buddy<Unsynchronised, purge::Never>, MmapHeap<>>>>},
    {"backbone", "BoundaryTag", run<Tags<fit::BestFit>>},
    {"backbone", "Slab", run<Slabs<classes::Geometric<8>>>},
    {"backbone", "SegregatedFit", run<Bins<LockedBin<Unsynchronised>>>},
    {"cache over Slab", "none", run<Slabs<classes::Geometric<8>>>},
    {"cache over Slab", "ThreadCache", run<Spans<ThreadCache<>, Slab<classes::Geometric<8>, Unsynchronised>>>},
    {"cache over Slab", "SlabArrayCache below", run<Spans<Slab<classes::Geometric<8>, Unsynchronised>, SlabArrayCache<8, 16, Unsynchronised>>>},
    {"source below Tlsf", "MmapHeap", run<Over<MmapHeap<>>>},
    {"source below Tlsf", "BrkHeap", run<Over<BrkHeap<>>>},
    {"source below Tlsf", "StaticHeap<4 MiB>", run<Over<StaticHeap<4_MiB>>>},
};

int all(int argc, char** argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--list")) {
    for (const Arm& arm : kArms) std::printf("%s\t%s\n", arm.slot, arm.answer);
    return 0;
  }
  const std::size_t pairs = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 0;
  for (const Arm& arm : kArms)
    if (pairs && !std::strcmp(arm.slot, argv[1]) && !std::strcmp(arm.answer, argv[2])) return arm.run(pairs), 0;
  std::fprintf(stderr, "usage: policies --list, or policies SLOT ANSWER PAIRS with a line of the list\n");
  return 2;
}

}  // namespace
}  // namespace bench
}  // namespace mortise

int main(int argc, char** argv) { return mortise::bench::all(argc, argv); }
