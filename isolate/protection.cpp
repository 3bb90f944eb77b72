// protection.cpp: extents of shared memory whose protection is not plain reading and writing, sorted by address.
//
//   recorded       what the program asked for last
//   a thread has   that, or more: rights that are taken go in the calling thread, rights that are given come everywhere
//
// So no system call of any thread fails for want of a right. An extent that one thread alone has applied costs the others nothing.
#include "protection.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#include "fault.hpp"
#include "lock.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "refuse.hpp"
#include "region.hpp"
#include "rendezvous.hpp"
#include "share.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Extent {
  std::uintptr_t low, high;
  int protection;
  const Thread* owner;  // the only thread that has no more than this; null: there may be several
  std::uint32_t made;   // address_spaces then: those made since may have it by inheritance
};

struct Grant {
  std::uintptr_t low, high;
  int protection;
};

constexpr std::size_t kExtentsMax = 8192;
constexpr int kPlain = PROT_READ | PROT_WRITE;

constinit Lock lock;  // of Quiet: a fault in a handler comes to take it
constinit Extent extents[kExtentsMax]{};
constinit std::size_t count = 0;
constinit std::atomic<std::size_t> count_in_region{0};

void remove(std::size_t i) noexcept {
  if (in_region(extents[i].low)) count_in_region.fetch_sub(1);
  std::memmove(&extents[i], &extents[i + 1], (--count - i) * sizeof(Extent));
}

bool insert(std::size_t i, Extent e) noexcept {
  if (count == kExtentsMax) return false;
  std::memmove(&extents[i + 1], &extents[i], (count++ - i) * sizeof(Extent));
  extents[i] = e;
  if (in_region(e.low)) count_in_region.fetch_add(1);
  return true;
}

/// The first extent that ends above `address`.
std::size_t search(std::uintptr_t address) noexcept {
  std::size_t low = 0, high = count;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (extents[middle].high <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

/// Makes [low, high) plain in the record: cuts whatever extents reach into it. Returns where it would stand.
std::size_t cut(std::uintptr_t low, std::uintptr_t high) noexcept {
  std::size_t i = search(low);
  while (i < count && extents[i].low < high) {
    const Extent e = extents[i];
    remove(i);
    if (e.low < low) insert(i++, {e.low, low, e.protection, e.owner, e.made});
    if (e.high > high) {
      insert(i, {high, e.high, e.protection, e.owner, e.made});
      break;
    }
  }
  return i;
}

bool record(std::uintptr_t low, std::uintptr_t high, int protection, const Thread* owner) noexcept {
  const std::size_t i = cut(low, high);
  if (protection == kPlain) return true;
  const Extent e{low, high, protection, owner, address_spaces.load()};
  if (i > 0 && extents[i - 1].high == low) {
    Extent& left = extents[i - 1];
    if (left.protection == protection && left.owner == owner && left.made == e.made) return left.high = high, true;
  }
  return insert(i, e);
}

/// The recorded extent around `address`; plain memory reaches to the next extent.
Extent lookup(std::uintptr_t address) noexcept {
  const std::size_t i = search(address);
  if (i < count && extents[i].low <= address) return extents[i];
  return {i > 0 ? extents[i - 1].high : 0, i < count ? extents[i].low : ~0ul, kPlain, nullptr, 0};
}

bool is_mine(const Extent& e) noexcept { return e.owner == self && e.made == address_spaces.load(); }

/// Whether another thread may lack some of `protection` in [low, high). Code to be executed is a matter of faults.
bool lack_elsewhere(std::uintptr_t low, std::uintptr_t high, int protection) noexcept {
  for (std::size_t i = search(low); i < count && extents[i].low < high; ++i)
    if (!is_mine(extents[i]) && (protection & kPlain & ~extents[i].protection)) return is_thread();
  return false;
}

/// In every address space: what is recorded by now, where that is as much still.
void give(void* argument) noexcept {
  const Grant g = *static_cast<const Grant*>(argument);
  Quiet held(lock);
  for (std::uintptr_t at = g.low; at < g.high;) {
    const Extent e = lookup(at);
    const std::uintptr_t end = e.high < g.high ? e.high : g.high;
    if ((e.protection & g.protection) == g.protection)
      raw_syscall(SYS_mprotect, static_cast<long>(at), static_cast<long>(end - at), e.protection);
    at = end;
  }
}

/// Here and in the record; `rest` is what there is to do for others. 0 or -errno. The lock is held.
long change(const Grant& g, bool& rest) noexcept {
  rest = lack_elsewhere(g.low, g.high, g.protection);
  const long result = raw_syscall(SYS_mprotect, static_cast<long>(g.low), static_cast<long>(g.high - g.low), g.protection);
  if (failed(result)) return rest = false, result;
  return record(g.low, g.high, g.protection, rest ? nullptr : self) ? 0 : -ENOMEM;
}

/// Shared memory around `address`: an arena of the region, or a range converted when the runtime armed.
bool bounds(std::uintptr_t address, std::uintptr_t& low, std::uintptr_t& high) noexcept {
  if (in_region(address)) {
    low = kRegionLow + (address - kRegionLow) / kArenaBytes * kArenaBytes;
    high = low + kArenaBytes;
    return true;
  }
  const SharedRange range = find_shared_range(address);
  if (!range) return false;
  low = range.low;
  high = range.high;
  return true;
}

}  // namespace

long protect(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  std::uintptr_t shared_low, shared_high;
  if (!bounds(low, shared_low, shared_high))
    return raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(bytes), protection);
  if (!(protection & PROT_WRITE) && live_threads.load() > 1 && program_watches_faults())
    refuse_watched_protection(low, bytes);
  Grant g{low, page_ceil(low + bytes), protection};
  bool rest;
  long result;
  {
    Quiet held(lock);
    // An allocator that opens part of a reservation: in the region that is open already.
    const Extent now = lookup(low);
    if (protection == kPlain && now.protection == kPlain && g.high <= now.high && in_region(low)) return 0;
    result = change(g, rest);
  }
  if (rest) everywhere(&give, &g);
  return result;
}

void unprotect(std::uintptr_t low, std::size_t bytes) noexcept {
  if (in_region(low) && count_in_region.load() == 0) return;  // nearly always, and each munmap comes here
  Grant g{low, page_ceil(low + bytes), kPlain};
  bool rest;
  {
    Quiet held(lock);
    const Extent now = lookup(low);
    if (now.protection == kPlain && g.high <= now.high) return;
    change(g, rest);
  }
  if (rest) everywhere(&give, &g);
}

void note_protection(std::uintptr_t low, std::uintptr_t high, int protection) noexcept {
  Quiet held(lock);
  record(low, high, protection, nullptr);
}

bool catch_up_protection(std::uintptr_t address, bool write, bool execute) noexcept {
  std::uintptr_t low, high;
  if (!bounds(address, low, high)) return false;
  Quiet held(lock);
  const Extent now = lookup(address);
  if (now.owner != self && now.protection != kPlain) extents[search(address)].owner = nullptr;
  const int needed = write ? PROT_WRITE : execute ? PROT_EXEC : PROT_READ;
  if (!(now.protection & needed)) return false;
  if (low < now.low) low = now.low;
  if (high > now.high) high = now.high;
  // In the region a thread's own stack guard lies among plain memory: open the one page that is wanted, not its arena.
  if (in_region(address)) {
    low = page_floor(address);
    high = low + kPage;
  }
  return !failed(raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(high - low), now.protection));
}

void apply_recorded_protections() noexcept {
  for (std::size_t i = 0; i < count; ++i)
    raw_syscall(SYS_mprotect, static_cast<long>(extents[i].low), static_cast<long>(extents[i].high - extents[i].low),
                extents[i].protection);
}

Lock& protection_lock() noexcept { return lock; }

}  // namespace mortise::isolate
