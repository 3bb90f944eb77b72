// The stacks that conformance and property tests drive: a new allocator, layer or source joins in one line.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "mortise/allocators/best_fit.hpp"
#include "mortise/allocators/buddy.hpp"
#include "mortise/allocators/first_fit.hpp"
#include "mortise/allocators/hslab.hpp"
#include "mortise/allocators/iamalloc.hpp"
#include "mortise/allocators/next_fit.hpp"
#include "mortise/allocators/wfslab.hpp"
#include "mortise/allocators/segfit.hpp"
#include "mortise/allocators/tlsf.hpp"
#include "mortise/allocators/tlsfcc.hpp"
#include "mortise/cache/slab_array_cache.hpp"
#include "mortise/cache/thread_cache.hpp"
#include "mortise/route/affinity_pools.hpp"
#include "mortise/route/bypass_for.hpp"
#include "mortise/route/fallback.hpp"
#include "mortise/route/segregate.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/sized_header.hpp"
#include "mortise/source/brk_heap.hpp"
#include "mortise/source/callback_heap.hpp"
#include "mortise/source/huge_page_heap.hpp"
#include "mortise/source/malloc_heap.hpp"
#include "mortise/source/static_heap.hpp"
#include "mortise/sync/cc_synch_lock.hpp"
#include "mortise/sync/flat_combining_lock.hpp"
#include "mortise/sync/mcs_lock.hpp"
#include "mortise/sync/spin_lock.hpp"
#include "mortise/sync/ticket_lock.hpp"
#include "mortise/watch/counters.hpp"
#include "mortise/watch/latency.hpp"
#include "mortise/watch/sampled.hpp"
#include "tests/support/recording.hpp"

namespace mortise::test {

namespace detail {
template <class List> struct Bottom;
template <class Source> struct Bottom<Layers<Source>> {
  using Recorded = Layers<Recording, Source>;
  template <class... Other> using Rebased = Layers<Other...>;
};
template <class First, class... Rest> struct Bottom<Layers<First, Rest...>> {
  using Recorded = Join<Layers<First>, typename Bottom<Layers<Rest...>>::Recorded>;
  template <class... Other>
  using Rebased = Join<Layers<First>, typename Bottom<Layers<Rest...>>::template Rebased<Other...>>;
};
}  // namespace detail

/// The same layers over another source (or over layers that end in one).
template <class List, class... Other> using Rebased = typename detail::Bottom<List>::template Rebased<Other...>;

/// The same layers with every call to the source checked.
template <class List> using Recorded = typename detail::Bottom<List>::Recorded;

/// What a stack can do beyond what its members say.
struct Traits {
  std::size_t align_max = kMinAlign;   ///< alignments up to here are served
  std::size_t room_bytes = 256_MiB;    ///< how much the source has
  bool is_exact = true;                ///< `tell` counts as live what the blocks' sizes add up to, if it counts at all
  bool maps_through_source = true;     ///< false: a layer has memory of its own beside the source's
  bool hits = true;                    ///< false: its cache is closed, or keeps what it got for later
  unsigned hit_tries = 1;              ///< more where any allocation may, by chance, pass the caches by
  std::size_t length_divisor = 1;      ///< makes random runs shorter where each operation is a system call
};
inline constexpr Traits kAligns{.align_max = 1_MiB};
inline constexpr Traits kTags{.align_max = 1_MiB, .is_exact = false};  // counts its own bytes in each block as live
inline constexpr Traits kPools{.align_max = 1_MiB, .is_exact = false, .maps_through_source = false};  // remote releases count as live
inline constexpr Traits kRemembers{.align_max = 1_MiB, .maps_through_source = false, .hit_tries = 9};  // in tables beside the heap
inline constexpr Traits kArena{.align_max = 4_KiB, .room_bytes = 8_MiB, .length_divisor = 20};
inline constexpr Traits kSmallAligns{.align_max = 64_KiB, .room_bytes = 8_MiB};
inline constexpr Traits kSmallTags{.align_max = 64_KiB, .room_bytes = 8_MiB, .is_exact = false};
inline constexpr Traits kSystemCalls{.align_max = 64_KiB, .length_divisor = 100};

template <std::size_t kLength> struct Name {
  char text[kLength];
  constexpr Name(const char (&name)[kLength]) { std::copy_n(name, kLength, text); }
};

template <Name kNameText, class ListT, Traits kTraitsT = Traits{}> struct Entry {
  using List = ListT;
  static constexpr Traits kTraits = kTraitsT;
  static std::string name() { return kNameText.text; }
};
struct EntryNames {
  template <class E> static std::string GetName(int) { return E::name(); }
};

using SmallClasses = classes::Geometric<4, 32_KiB>;
using SmallSlab = Slab<SmallClasses>;
using SmallBypass = Bypass<LargerThan<32_KiB, 8_KiB>, SmallSlab>;
using Spans = Layers<SpanCache<>, PageIndex, MmapHeap<>>;
template <class... Upper> using OverMapped = Layers<Upper..., SpanCache<>, PageIndex, StaysMapped, MmapHeap<>>;
template <class... Upper> using OverSpans = Join<Layers<Upper...>, Spans>;

/// The callbacks of a user whose memory is libc's.
class LibcCallbacks : public CallbackHeap {
 public:
  constexpr LibcCallbacks() noexcept
      : CallbackHeap({.take = [](void*, std::size_t bytes, std::size_t align) { return ::aligned_alloc(align, round_up(bytes, align)); },
                      .give = [](void*, void* at, std::size_t) { ::free(at); }}) {}
};

/// Hslab on a machine whose CPUs are nodes by turns.
struct OnTwoNodes : PerNode {
  template <class Below> class Over : public PerNode::Over<Below> {
   public:
    bool start(const os::Facts& facts) noexcept {
      os::NodeMap map;
      map.count = 2;
      for (unsigned cpu = 0; cpu < os::kCpusMax; ++cpu) map.of_cpu[cpu] = cpu % 2;
      return PerNode::Over<Below>::start(facts) && (this->node_count() || this->split(map, facts));
    }
  };
};

using Stacks = ::testing::Types<
    // allocators that ship
    Entry<"hslab", HslabLayers, kAligns>,
    Entry<"wfslab", WfslabLayers, kAligns>,
    Entry<"first_fit", FirstFitLayers, kTags>,
    Entry<"next_fit", NextFitLayers, kTags>,
    Entry<"best_fit", BestFitLayers, kTags>,
    Entry<"buddy", BuddyLayers, kAligns>,
    Entry<"segfit", SegfitLayers, kAligns>,
    Entry<"tlsf", TlsfLayers, kTags>,
    Entry<"tlsfcc", TlsfccLayers, kTags>,
    Entry<"iamalloc", IamallocLayers, kTags>,
    // each layer, with what it needs below it
    Entry<"mmap_heap", Layers<MmapHeap<>>, kSystemCalls>,
    Entry<"page_index", Layers<PageIndex, MmapHeap<>>, kSystemCalls>,
    Entry<"span_cache", Spans, Traits{.align_max = 1_MiB, .length_divisor = 10}>,
    Entry<"span_cache_purging_at_once", Layers<SpanCache<purge::AtOnce>, PageIndex, MmapHeap<>>, kSystemCalls>,
    Entry<"slab", OverSpans<SmallSlab>>,
    Entry<"slab_latest_first", OverSpans<Slab<SmallClasses, SpinLock, fit::LatestFirst>>>,
    Entry<"segregated_fit", OverMapped<SegregatedFit<SmallClasses>>>,
    Entry<"segregated_fit_under_locks", OverSpans<SegregatedFit<SmallClasses, LockedBin<FutexLock>>>>,
    Entry<"thread_cache_over_segregated_fit", OverMapped<ThreadCache<>, SegregatedFit<SmallClasses>>>,
    Entry<"slab_power_of_two", OverSpans<Slab<classes::PowerOfTwo<32_KiB>>>>,
    Entry<"slab_exact_small", OverSpans<Slab<classes::ExactSmall<1_KiB, 4, 32_KiB>>>>,
    Entry<"slab_array_cache", OverSpans<SmallSlab, SlabArrayCache<>>>,
    Entry<"slab_array_cache_below_segregated_fit", OverMapped<ThreadCache<>, SegregatedFit<SmallClasses>, SlabArrayCache<2, 4>>>,
    Entry<"byte_cap", Layers<SpanCache<purge::ByteCap<1_MiB>>, PageIndex, MmapHeap<>>, Traits{.align_max = 1_MiB, .length_divisor = 50}>,
    Entry<"bypass_for", OverSpans<BypassFor<RealTimeThreads, ThreadCache<>>, SmallSlab>>,
    Entry<"fallback", Layers<Fallback<Tlsf<SpinLock>, StaticHeap<1_MiB>>, Tlsf<>, MmapHeap<>>, kTags>,
    Entry<"segregate", Layers<Segregate<LargerThan<32_KiB>, Buddy<>, MmapHeap<>>, BoundaryTag<>, MmapHeap<>>, kTags>,
    Entry<"elimination_array", Layers<EliminationArray<classes::Geometric<4, 1_KiB>, 1, 0, 2>, BoundaryTag<>, MmapHeap<>>, kTags>,
    Entry<"cc_synch", Layers<Tlsf<CcSynchLock<>>, MmapHeap<>>, kTags>,
    Entry<"flat_combining", Layers<Tlsf<FlatCombiningLock<>>, MmapHeap<>>, kTags>,
    Entry<"batched_free", OverSpans<BatchedFree<64, 64_KiB>, SmallSlab>>,
    Entry<"core_cache", OverSpans<CoreCache<>, SmallSlab>>,
    Entry<"core_cache_by_thread", OverSpans<CoreCache<64_KiB, by_thread_in_turn>, SmallSlab>>,
    Entry<"sub_heaps_by_thread_hash", Layers<SubHeaps<fit::BestFit, by_thread_hash>, SharedHeap<>>, kTags>,
    Entry<"sub_heaps_by_core", Layers<SubHeaps<fit::FirstFit, by_core>, SharedHeap<>>, kTags>,
    Entry<"bypass", OverSpans<SmallBypass>>,
    Entry<"bypass_in_bypass", OverSpans<Bypass<LargerThan<64_KiB>, SmallBypass>>>,
    Entry<"aligned", OverSpans<Aligned, SmallBypass>, kAligns>,
    Entry<"thread_cache", OverSpans<Aligned, ThreadCache<>, SmallBypass>, kAligns>,
    Entry<"thread_cache_over_batches", OverSpans<ThreadCache<8_KiB, 8>, BatchedFree<64, 64_KiB>, SmallSlab>>,
    Entry<"latency", OverSpans<Latency, Aligned, ThreadCache<>, Latency, SmallBypass>, kAligns>,
    Entry<"counters", OverSpans<Counters<probe::Bytes>, Aligned, ThreadCache<>, Counters<>, SmallBypass>, kAligns>,
    Entry<"sampled", Join<Layers<Sampled<64_KiB>>, HslabLayers>, kRemembers>,
    Entry<"sampled_metered", Join<Layers<Sampled<64_KiB>>, HslabWith<CoreCache<32_KiB, by_core, 1>, MmapHeap<>>>, kRemembers>,
    Entry<"sampled_often", Join<Layers<Sampled<64>>, HslabLayers>, Traits{.align_max = 1_MiB, .maps_through_source = false, .hits = false}>,
    Entry<"affinity_pools", Join<Layers<AffinityPools<>>, HslabLayers>, kPools>,
    Entry<"affinity_pools_over_malloc", Layers<AffinityPools<BySizeClass<>, 1_KiB>, SizedHeader, MallocHeap>, kPools>,
    Entry<"per_node", HslabPerNodeLayers, kAligns>,
    Entry<"per_node_on_two", Join<Layers<OnTwoNodes>, HslabLayers>, Traits{.align_max = 1_MiB, .maps_through_source = false, .hits = false}>,
    Entry<"limited_to", Layers<SpanCache<>, PageIndex, LimitedTo<256_MiB>, MmapHeap<>>, kAligns>,
    Entry<"ticket_lock", OverSpans<ThreadCache<>, Slab<SmallClasses, TicketLock>>>,
    Entry<"mcs_lock", OverSpans<ThreadCache<>, Slab<SmallClasses, McsLock>>>,
    Entry<"wait_free_slab_with_few_slots", OverSpans<WaitFreeSlab<SmallClasses, 3>, SpanReserve<64, 64>>>,
    Entry<"sized_header", Layers<SizedHeader, MallocHeap>, kTags>,
    Entry<"sized_header_over_classes", OverSpans<SizedHeader, SmallBypass>, kTags>,
    // sources
    Entry<"malloc_heap", Layers<MallocHeap>, kAligns>,
    Entry<"callback_heap", Layers<LibcCallbacks>, kAligns>,
    Entry<"sized_header_over_callbacks", Layers<SizedHeader, LibcCallbacks>, kTags>,
    Entry<"huge_page_heap", Layers<HugePageHeap<>>, kSystemCalls>,
    Entry<"tlsf_over_huge_pages", Layers<Tlsf<>, HugePageHeap<>>, kTags>,
    Entry<"brk_heap", Layers<BrkHeap<>>, kSystemCalls>,
    Entry<"static_heap", Layers<StaticHeap<16_MiB>>, kArena>,
    Entry<"hslab_over_brk_heap", Rebased<HslabLayers, BrkHeap<>>, kAligns>,
    Entry<"segfit_over_static_heap", Rebased<SegfitLayers, StaticHeap<32_MiB>>, kSmallAligns>,
    Entry<"buddy_over_static_heap", Rebased<BuddyLayers, StaticHeap<16_MiB>>, kSmallAligns>,
    Entry<"tlsfcc_over_static_heap", Rebased<TlsfccLayers, StaticHeap<16_MiB>>, kSmallTags>,
    Entry<"hslab_over_static_heap", Rebased<HslabLayers, StaticHeap<32_MiB>>, kSmallAligns>,
    Entry<"thread_cache_over_static_heap", Rebased<OverSpans<Aligned, ThreadCache<>, SmallBypass>, StaticHeap<16_MiB>>, kSmallAligns>>;

}  // namespace mortise::test
