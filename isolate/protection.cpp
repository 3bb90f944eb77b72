// protection.cpp: extents of shared memory whose protection is not plain reading and writing, sorted by address.
//
//   recorded       what the program asked for last
//   a thread has   that, or more where nobody can tell: of PROT_NONE, in whichever thread did not ask for it
//
// So no system call of any thread fails for want of a right, and memory that was made constant is written by none. An extent that one
// thread alone has applied costs the others nothing.
#include "protection.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#include "fault.hpp"
#include "file_maps.hpp"
#include "lock.hpp"
#include "message.hpp"
#include "quiet.hpp"
#include "raw.hpp"
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

struct Change {
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

/// Whether another thread may have less than is recorded as plain, somewhere in [low, high).
bool is_less_elsewhere(std::uintptr_t low, std::uintptr_t high) noexcept {
  for (std::size_t i = search(low); i < count && extents[i].low < high; ++i)
    if (!is_mine(extents[i])) return true;
  return false;
}

/// Whether another thread may lack some of `protection` in [low, high). Code to be executed is a matter of faults.
bool lack_elsewhere(std::uintptr_t low, std::uintptr_t high, int protection) noexcept {
  for (std::size_t i = search(low); i < count && extents[i].low < high; ++i)
    if (!is_mine(extents[i]) && (protection & kPlain & ~extents[i].protection)) return true;
  return false;
}

/// Whether somebody could tell that a thread has more.
bool is_told_by_more(int protection) noexcept {
  return protection == PROT_NONE ? faults_are_handled() : !(protection & PROT_WRITE);
}

/// With MORTISE_VERBOSE=1.
void tell_of_less_once() noexcept {
  static constinit std::atomic<bool> told{false};
  if (!faults_are_handled() && !told.exchange(true))
    explain("nobody handles SIGSEGV: memory that mprotect forbids stays accessible to other threads");
}

/// In every address space, unless it has been changed again since.
void apply(void* argument) noexcept {
  const Change c = *static_cast<const Change*>(argument);
  Quiet held(lock);
  for (std::uintptr_t at = c.low; at < c.high;) {
    const Extent e = lookup(at);
    const std::uintptr_t end = e.high < c.high ? e.high : c.high;
    if (e.protection == c.protection) raw_syscall(SYS_mprotect, static_cast<long>(at), static_cast<long>(end - at), e.protection);
    at = end;
  }
}

/// Here and in the record; `rest` is what there is to do for others. 0 or -errno. The lock is held.
long change(const Change& c, bool& rest) noexcept {
  const bool has_others = is_thread() && live_threads.load() > 1;
  rest = has_others && (is_told_by_more(c.protection) || lack_elsewhere(c.low, c.high, c.protection));
  const bool is_alone = !rest && !is_less_elsewhere(c.low, c.high);
  const long result = raw_syscall(SYS_mprotect, static_cast<long>(c.low), static_cast<long>(c.high - c.low), c.protection);
  if (failed(result)) return rest = false, result;
  return record(c.low, c.high, c.protection, is_alone ? self : nullptr) ? 0 : -ENOMEM;
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
  Change c{low, page_ceil(low + bytes), protection};
  bool rest;
  long result;
  {
    Quiet held(lock);
    // An allocator that opens part of a reservation: in the region that is open already.
    const Extent now = lookup(low);
    if (protection == kPlain && now.protection == kPlain && c.high <= now.high && in_region(low)) return 0;
    result = change(c, rest);
  }
  if (rest) everywhere(&apply, &c);
  else if (protection == PROT_NONE && live_threads.load() > 1) tell_of_less_once();
  return result;
}

long protect_fresh(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  const bool stays = protection == kPlain || (protection == PROT_NONE && !faults_are_handled());
  return stays ? 0 : protect(low, bytes, protection);
}

int protection_of(std::uintptr_t address) noexcept {
  if (in_region(address) && count_in_region.load() == 0) return kPlain;
  Quiet held(lock);
  return lookup(address).protection;
}

long install_guards(std::uintptr_t low, std::size_t bytes) noexcept {
  const long result = protect(low, bytes, PROT_NONE);
  if (!failed(result)) punch(low, page_ceil(bytes));
  return result;
}

long remove_guards(std::uintptr_t low, std::size_t bytes) noexcept {
  const std::uintptr_t high = page_ceil(low + bytes);
  long result = 0;
  for (std::uintptr_t at = low, end; at < high && !failed(result); at = end) {
    Extent e;
    {
      Quiet held(lock);
      e = lookup(at);
    }
    end = e.high < high ? e.high : high;
    if (e.protection == PROT_NONE) result = protect(at, end - at, kPlain);
  }
  return result;
}

void unprotect(std::uintptr_t low, std::size_t bytes) noexcept {
  if (in_region(low) && count_in_region.load() == 0) return;  // nearly always, and each munmap comes here
  Change c{low, page_ceil(low + bytes), kPlain};
  bool rest;
  {
    Quiet held(lock);
    const Extent now = lookup(low);
    if (now.protection == kPlain && c.high <= now.high) return;
    change(c, rest);
  }
  if (rest) everywhere(&apply, &c);
}

bool note_protection(std::uintptr_t low, std::uintptr_t high, int protection) noexcept {
  Quiet held(lock);
  return record(low, high, protection, nullptr);
}

bool catch_up_protection(std::uintptr_t address, bool write, bool execute) noexcept {
  std::uintptr_t low, high;
  if (!bounds(address, low, high)) return false;
  if (in_region(address) && has_mapped_file(address, address + 1) && !find_shared_range(address)) return false;  // no memory: of rights of its own
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

bool holds_code(std::uintptr_t low, std::uintptr_t high) noexcept {
  for (std::size_t i = search(low); i < count && extents[i].low < high; ++i)
    if (extents[i].protection & PROT_EXEC) return true;
  return false;
}

void apply_recorded_protections() noexcept {
  for (std::size_t i = 0; i < count; ++i)
    raw_syscall(SYS_mprotect, static_cast<long>(extents[i].low), static_cast<long>(extents[i].high - extents[i].low),
                extents[i].protection);
}

namespace {

void apply_here(void*) noexcept {
  Quiet held(lock);
  apply_recorded_protections();
  for (std::size_t i = 0; i < count; ++i) extents[i].owner = nullptr;
}

}  // namespace

void apply_everywhere() noexcept { everywhere(&apply_here, nullptr); }

Lock& protection_lock() noexcept { return lock; }

}  // namespace mortise::isolate
