#include "cli/latency/timing.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

#include "cli/latency/area.hpp"

extern "C" [[gnu::weak]] void* __curbrk;
extern "C" [[gnu::weak]] int _dl_find_object(void*, dl_find_object*) noexcept;

namespace mortise::latency {

constinit thread_local Thread self [[gnu::tls_model("initial-exec")]]{};
constinit std::uint64_t known_sizes[1 << kSizesLog2] = {};

namespace {

constexpr std::int32_t kLater = 1024;

void take_snapshot(Snapshot& known, std::uint64_t now) noexcept {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  known = {now,
           static_cast<std::uint64_t>(used.ru_minflt),
           static_cast<std::uint64_t>(used.ru_majflt),
           static_cast<std::uint64_t>(used.ru_nvcsw),
           static_cast<std::uint64_t>(used.ru_nivcsw),
           &__curbrk ? reinterpret_cast<std::uint64_t>(__curbrk) : 0};
}

std::size_t size_of(const void* block) noexcept {
  const std::uint64_t word = __atomic_load_n(&size_slot(block), __ATOMIC_RELAXED);
  return word >> 20 == (reinterpret_cast<std::uint64_t>(block) >> 4 & 0xfffffffffff) ? (word & 0xfffff) * 8 : 0;
}

/// What the kernel may have been asked for without our seeing the call: the page of a freed block is gone.
std::uint32_t given_back(const void* block) noexcept {
  unsigned char resident = 1;
  const auto page = reinterpret_cast<std::uintptr_t>(block) & ~std::uintptr_t{4095};
  const bool is_gone = mincore(reinterpret_cast<void*>(page), 1, &resident) != 0 && errno == ENOMEM;
  return is_gone ? std::uint32_t{kMunmap} : 0;
}

/// glibc marks in a block's header that it is a mapping of its own.
bool is_own_mapping(const void* block) noexcept {
  return area.is_glibc && block && (static_cast<const std::size_t*>(block)[-1] & 2) != 0;
}

void find_site(const void* site, Call& call) noexcept {
  call.offset = reinterpret_cast<std::uint64_t>(site);
  strcpy(call.module, "?");
  dl_find_object found{};
  if (!&_dl_find_object || _dl_find_object(const_cast<void*>(site), &found) != 0) return;
  call.offset -= found.dlfo_link_map->l_addr;
  const char* name = found.dlfo_link_map->l_name;
  const std::size_t length = strlen(name);
  if (length >= kPathBytes) name += length - kPathBytes + 1;
  strcpy(call.module, name);
}

Call& least(Call* calls) noexcept {
  Call* found = calls;
  for (unsigned i = 1; i < kWorst; ++i)
    if (calls[i].ticks < found->ticks) found = &calls[i];
  return *found;
}

/// A slow call: what happened to its thread meanwhile. Returns whether a preemption tore it.
bool examine(Thread& t, Kind kind, std::uint64_t begun, std::uint64_t ended, const void* block, std::size_t size,
             const void* site) noexcept {
  const int kept = errno;
  Record& r = *t.record;
  const Snapshot before = r.known;
  take_snapshot(r.known, ended);
  const std::uint64_t ticks = ended - begun;
  const bool is_torn = ticks >= area.slow_ticks && r.known.preemptions != before.preemptions;
  Call* const table = is_torn ? r.torn_calls : r.slow;
  std::uint32_t& used = is_torn ? r.torn_used : r.slow_used;
  Call& place = used < kWorst ? table[used] : least(table);
  if (kind != kEmpty && (used < kWorst || place.ticks < ticks)) {
    used += used < kWorst;
    place = {.ticks = ticks, .at = begun, .size = kind == kFree ? size_of(block) : size, .window = begun - before.at,
             .kind = kind, .kernel_calls = t.kernel_calls,
             .minor_faults = static_cast<std::uint32_t>(r.known.minor_faults - before.minor_faults),
             .major_faults = static_cast<std::uint32_t>(r.known.major_faults - before.major_faults),
             .waits = static_cast<std::uint32_t>(r.known.waits - before.waits),
             .preemptions = static_cast<std::uint32_t>(r.known.preemptions - before.preemptions),
             .offset = 0, .module = {}};
    if (r.known.brk != before.brk) place.kernel_calls |= kBrk;
    if (kind == kFree && block) place.kernel_calls |= given_back(block);
    if (kind != kFree && is_own_mapping(block)) place.kernel_calls |= kMmap;
    find_site(site, place);
    if (r.slow_used == kWorst) {
      const std::uint64_t enough = least(r.slow).ticks;
      r.examine_from = enough < area.slow_ticks ? enough : area.slow_ticks;
    }
  }
  errno = kept;
  return is_torn;
}

}  // namespace

MORTISE_COLD bool admit(Thread& t, Kind kind) noexcept {
  if (t.is_inside) return false;
  if (t.record || (area.header && attach(t))) return true;
  if (area.is_settled) t.left[kind] = area.header ? kLater : kNever;
  return false;
}

MORTISE_COLD std::uint64_t refresh(Snapshot& known, std::uint64_t now) noexcept {
  take_snapshot(known, now);
  return clock_now();
}

MORTISE_COLD void note_slow(Thread& t, Kind kind, unsigned stretch, std::uint64_t begun, std::uint64_t ended,
                            const void* block, std::size_t size, const void* site) noexcept {
  Record& r = *t.record;
  if (ended < begun) {
    ++r.backwards;
    return;
  }
  const std::uint64_t ticks = ended - begun;
  const bool is_torn = examine(t, kind, begun, ended, block, size, site);
  Sum& sum = r.sums[kind];
  ++sum.timed;
  sum.ticks += ticks << stretch;
  (is_torn ? r.torn : r.counts)[Buckets::bucket_of(ticks)][kind] += std::uint64_t{1} << stretch;
  std::uint64_t& worst = is_torn ? r.worst_torn[kind] : sum.worst;
  if (ticks > worst) worst = ticks;
}

MORTISE_COLD void time_nothing(Thread& t) noexcept {
  const std::uint64_t begun = begin(t);
  asm volatile("" : : : "memory");
  note(t, kEmpty, 0, begun, clock_now(), nullptr, 0, nullptr);
  ++t.record->sums[kEmpty].calls;
  if (t.empties % kPaceEvery == 0 && front.pace_ticks != 0) pace(t);
}

MORTISE_COLD void pace(Thread& t) noexcept {
  const std::uint64_t now = clock_now(), before = t.record->paced_at, took = now - before;
  t.record->paced_at = now;
  if (before == 0) return;
  if (took < front.pace_ticks) t.stretch += t.stretch < kStretchMost;
  else if (took / 4 > front.pace_ticks) t.stretch -= t.stretch > 0;
}

std::uint64_t refresh_ticks() noexcept {
  Snapshot s{};
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t begun = clock_now(), ticks = refresh(s, begun) - begun;
    if (ticks < least) least = ticks;
  }
  return least;
}

std::uint64_t timing_ticks() noexcept {
  constexpr unsigned kReadings = 16;  // together: the counter's steps may be longer than one
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t begun = clock_now();
    std::uint64_t ended = begun;
    for (unsigned n = 0; n < kReadings; ++n) ended = clock_now();
    if (ended - begun < least) least = ended - begun;
  }
  return 5 * least / kReadings;  // two readings, and the lines that a call after thousands finds cold
}

}  // namespace mortise::latency
