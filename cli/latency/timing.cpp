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
constinit bool use_clock_gettime = false;

namespace {

constexpr unsigned kEmptyEveryFull = 16;  // with every call timed, an empty one beside each would double the cost
constexpr unsigned kSizesLog2 = 13;
constinit std::uint64_t known_sizes[1 << kSizesLog2] = {};  // address / 16 << 20 | size / 8, rounded up

std::uint64_t next_random(Thread& t) noexcept {
  std::uint64_t x = t.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return t.random = x;
}

/// How many calls go untimed: geometric with mean every - 1. -log2 of a uniform number is its leading zeros plus a
/// fraction, here on a straight line, which is off by less than 0.09; its mean is 3/2 where the logarithm's is 1 / ln
/// 2.
std::uint32_t gap(Thread& t, std::uint64_t every) noexcept {
  if (every <= 1) return 0;
  const std::uint64_t r = next_random(t) | 1;
  const auto zeros = static_cast<unsigned>(__builtin_clzll(r));
  const auto mantissa = static_cast<std::uint32_t>((r << zeros) >> 47 & 0xffff);
  const std::uint64_t minus_log2 = (std::uint64_t{zeros + 1} << 16) - mantissa;  // 16.16
  return static_cast<std::uint32_t>((minus_log2 * (every - 1) * 43691) >> 32);   // times 2/3
}

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

std::uint64_t slot_of(const void* block) noexcept {
  return (reinterpret_cast<std::uint64_t>(block) * 0x9E3779B97F4A7C15ull) >> (64 - kSizesLog2);
}

std::size_t size_of(const void* block) noexcept {
  const std::uint64_t word = __atomic_load_n(&known_sizes[slot_of(block)], __ATOMIC_RELAXED);
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
MORTISE_COLD bool examine(Thread& t, Kind kind, std::uint64_t begun, std::uint64_t ended, const void* block,
                          std::size_t size, const void* site) noexcept {
  const int kept = errno;
  Record& r = *t.record;
  const Snapshot before = r.known;
  take_snapshot(r.known, ended);
  const std::uint64_t ticks = ended - begun;
  const bool is_torn = ticks >= area.header->slow_ticks && r.known.preemptions != before.preemptions;
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
      r.examine_from = enough < area.header->slow_ticks ? enough : area.header->slow_ticks;
    }
  }
  if (!is_torn && ticks > r.worst[kind]) r.worst[kind] = ticks;
  if (is_torn && ticks > r.worst_torn[kind]) r.worst_torn[kind] = ticks;
  errno = kept;
  return is_torn;
}

void count(Thread& t, Kind kind, std::uint64_t begun, std::uint64_t ended, const void* block, std::size_t size,
           const void* site) noexcept {
  Record& r = *t.record;
  if (ended < begun) {
    ++r.backwards;
    return;
  }
  const std::uint64_t ticks = ended - begun;
  bool is_torn = false;
  if (ticks >= r.examine_from) [[unlikely]] is_torn = examine(t, kind, begun, ended, block, size, site);
  ++(is_torn ? r.torn : r.counts)[kind][Buckets::bucket_of(ticks)];
  r.ticks[kind] += ticks;
  if (!is_torn && ticks > r.worst[kind]) r.worst[kind] = ticks;
}

}  // namespace

bool begin(Thread& t, Kind kind) noexcept {
  if (!area.header || (!t.record && !attach(t))) {
    t.left[kind] = area.header ? 1024 : area.is_settled ? ~0u : 0;
    return false;
  }
  t.left[kind] = gap(t, area.header->every);
  t.record->calls[kind] += t.left[kind] + 1;
  t.is_inside = true;
  t.kernel_calls = 0;
  return true;
}

std::uint64_t fresh_begin(Thread& t, std::uint64_t now) noexcept {
  Record& r = *t.record;
  if (now - r.known.at <= area.header->window_ticks) [[likely]] return now;
  take_snapshot(r.known, now);
  return clock_now();
}

void note(Thread& t, Kind kind, std::uint64_t begun, std::uint64_t ended, const void* block, std::size_t size,
          const void* site) noexcept {
  count(t, kind, begun, ended, block, size, site);
  if (area.header->every > 1 || ++t.empties % kEmptyEveryFull == 0) {
    t.kernel_calls = 0;
    const std::uint64_t from = fresh_begin(t, clock_now());
    asm volatile("" : : : "memory");
    count(t, kEmpty, from, clock_now(), nullptr, 0, nullptr);
    ++t.record->calls[kEmpty];
  }
  t.is_inside = false;
}

void know_size(const void* block, std::size_t size) noexcept {
  const std::uint64_t eighths = size > std::size_t{0xfffff} * 8 ? 0xfffff : (size + 7) / 8;
  const std::uint64_t word = (reinterpret_cast<std::uint64_t>(block) >> 4) << 20 | eighths;
  __atomic_store_n(&known_sizes[slot_of(block)], word, __ATOMIC_RELAXED);
}

}  // namespace mortise::latency
