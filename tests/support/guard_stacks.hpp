// The stacks with guards that conformance and property tests drive: each guard alone, then together, in every order that has a meaning.
#pragma once

#include "mortise/allocators/hslab_hardened.hpp"
#include "mortise/allocators/hslabd.hpp"
#include "mortise/allocators/tlsfccsd.hpp"
#include "mortise/allocators/wfslabs.hpp"
#include "mortise/guard/delayed_batches.hpp"
#include "mortise/guard/delayed_free.hpp"
#include "mortise/guard/delayed_reuse.hpp"
#include "mortise/guard/guard_pages.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/guard/random_slots.hpp"
#include "mortise/guard/sealed_tail.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/guard/zero_on_free.hpp"
#include "tests/support/stacks.hpp"

namespace mortise::test {

/// Spans over a source that keeps marks.
template <class... Upper> using OverMarks = Join<Layers<Upper...>, Layers<SpanCache<>, PageIndex, BlockMarks<2>, MmapHeap<>>>;
using Cached = Layers<Aligned, ThreadCache<>, SmallBypass>;
template <class... Guard> using Guarded = Join<Layers<Guard...>, Cached, Layers<SpanCache<>, PageIndex, BlockMarks<2>, MmapHeap<>>>;
inline constexpr Traits kGuardPages{.align_max = 1_MiB, .is_exact = false, .length_divisor = 4};
inline constexpr Traits kSampled{.align_max = 1_MiB, .is_exact = false};
inline constexpr Traits kDelayed{.align_max = 1_MiB, .is_exact = false, .hits = false};  // no malloc has what was released just now
using BatchQuarantine = DelayedBatches<8_KiB, fills::Untouched, 1_KiB>;
using ZeroingBatches = DelayedBatches<8_KiB, fills::Zeroed<>, 1_KiB>;
using ZeroingStarts = DelayedBatches<8_KiB, fills::ZeroedStart<1_KiB>, 1_KiB>;
using SlabsWalled = Bypass<LargerThan<16_KiB>, SmallSlab, GuardPages<16384, false>>;
using FewSlabsWalled = Bypass<LargerThan<16_KiB>, SmallSlab, GuardPages<2, false>>;
using Quarantine = DelayedFree<8_KiB, order::Fifo, fills::Untouched, 64>;
using ZeroingQuarantine = DelayedFree<8_KiB, order::Randomised, fills::Zeroed<>, 64>;

using GuardStacks = ::testing::Types<
    // allocators that ship
    Entry<"hslabd", HslabdLayers, kAligns>,
    Entry<"tlsfccsd", TlsfccsdLayers, kDelayed>,
    Entry<"wfslabs", WfslabsLayers, kTags>,
    Entry<"hslab_hardened", HslabHardenedLayers, kGuardPages>,
    // each guard alone
    Entry<"tail_checksum", Guarded<TailChecksum<>>, kTags>,
    Entry<"tail_checksum_xor", Join<Layers<TailChecksum<tag::Xor>>, FirstFitLayers>, kTags>,
    Entry<"tail_checksum_below_the_cache", OverSpans<ThreadCache<>, TailChecksum<tag::Mixed, on_fault::Configured, false>, SmallSlab>, Traits{.is_exact = false}>,
    Entry<"header_magic", Guarded<HeaderMagic<>>, kAligns>,
    Entry<"header_magic_below_the_cache", OverMarks<ThreadCache<>, HeaderMagic<>, SmallSlab>>,
    Entry<"sealed_tail", Guarded<SealedTail<>>, kTags>,
    Entry<"delayed_free", Guarded<Quarantine>, kAligns>,
    Entry<"delayed_free_zeroing", Guarded<ZeroingQuarantine>, kAligns>,
    Entry<"delayed_batches", Guarded<BatchQuarantine>, kAligns>,
    Entry<"delayed_batches_zeroing", Guarded<ZeroingBatches>, kAligns>,
    Entry<"delayed_batches_zeroing_starts", Guarded<ZeroingStarts>, kAligns>,
    Entry<"delayed_reuse", Layers<DelayedReuse<8_KiB, 8_KiB, classes::Geometric<16, 4_KiB>, 256>, Tlsf<FutexLock>, MmapHeap<>>, kDelayed>,
    Entry<"zero_on_free", Guarded<ZeroOnFree<>>, kAligns>,
    Entry<"random_slots", OverSpans<Aligned, ThreadCache<>, RandomSlots, SmallBypass>, kAligns>,
    Entry<"guard_pages", OverSpans<Aligned, ThreadCache<>, SmallBypass, GuardPages<>>, kGuardPages>,
    Entry<"guard_pages_behind_slabs", OverSpans<Aligned, ThreadCache<>, SlabsWalled>, kGuardPages>,
    Entry<"guard_pages_behind_few_slabs", OverSpans<Aligned, ThreadCache<>, FewSlabsWalled>, kGuardPages>,
    Entry<"sampled_guards", Guarded<SampledGuards<50, 16, 0>>, kSampled>,
    Entry<"size_check", Guarded<SizeCheck<>>, kAligns>,
    Entry<"encoded_links", Layers<Tlsf<FutexLock, fit::EncodedGoodFit>, MmapHeap<>>, kTags>,
    // together
    Entry<"zero_delay", Guarded<ZeroOnFree<>, Quarantine>, kAligns>,
    Entry<"tail_magic_delay", Guarded<TailChecksum<>, HeaderMagic<>, Quarantine>, kTags>,
    Entry<"magic_tail_delay", Guarded<HeaderMagic<>, TailChecksum<>, ZeroingQuarantine>, kTags>,
    Entry<"sealed_tail_batches", Guarded<SizeCheck<>, SealedTail<>, ZeroingStarts>, kTags>,
    Entry<"magic_delay_tail", Guarded<HeaderMagic<>, Quarantine, TailChecksum<>>, kTags>>;

}  // namespace mortise::test
