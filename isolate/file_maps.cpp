// file_maps.cpp: the record of file mappings and how others catch up with it.
//
// Small private writable mappings are read into the shared region at once: a write must be seen by all threads, and the
// file must not change; large ones are copied by blocks when written (lazy_files.hpp). All others stay mappings of
// their file. Addresses of the window are handed out once, so that a mapping another thread still has from earlier can never be taken
// for a new one. Only the last mapping's is used again, if no other thread has touched it, or if it was memory, which goes everywhere.
#include "file_maps.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>

#include "descriptors.hpp"
#include "file_copies.hpp"
#include "lazy_files.hpp"
#include "left_files.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "memory.hpp"
#include "protection.hpp"
#include "quiet.hpp"
#include "raw.hpp"
#include "refuse.hpp"
#include "region.hpp"
#include "rendezvous.hpp"
#include "share.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr std::uintptr_t kWindowLow = kRegionHigh + (64ull << 30);
constexpr std::uintptr_t kWindowHigh = 85ull << 40;  // programs lie above, at two thirds of the address space
constexpr std::size_t kRecordsMax = 4096;
constexpr int kFixed = MAP_FIXED | MAP_FIXED_NOREPLACE;

struct Record {
  std::uintptr_t low, high;  // low == high: unused
  off_t offset;
  int held;  // its descriptor (descriptors.hpp)
  int protection;
  int flags;
  const Thread* owner;  // the only thread that has it mapped; null: there may be several
  std::uint32_t made;   // address_spaces then: those made since may have it by inheritance
};

struct Range {
  std::uintptr_t low, high;
};

constinit Lock lock;  // of Quiet: tasks of a rendezvous and faults in handlers come to take it
constinit Record records[kRecordsMax]{};
constinit std::size_t top = 0;  // records above were never used
constinit std::atomic<int> files_in_region{0};  // ever: where memory was mapped over by a file
constinit std::uintptr_t window_next = kWindowLow;

Record* find(std::uintptr_t address) noexcept {
  for (std::size_t i = 0; i < top; ++i)
    if (records[i].low <= address && address < records[i].high) return &records[i];
  return nullptr;
}

Record* meets(std::uintptr_t low, std::uintptr_t high) noexcept {
  for (std::size_t i = 0; i < top; ++i)
    if (records[i].low < high && low < records[i].high) return &records[i];
  return nullptr;
}

Record* unused() noexcept {
  for (std::size_t i = 0; i < top; ++i)
    if (records[i].low == records[i].high) return &records[i];
  return top < kRecordsMax ? &records[top++] : nullptr;
}

/// A descriptor that the program has closed is the end of it: better a fault than another file's bytes.
long make(const Record& r) noexcept {
  const int fd = descriptor_of(r.held);
  if (fd < 0) return fd;
  return raw_syscall(SYS_mmap, static_cast<long>(r.low), static_cast<long>(r.high - r.low), r.protection,
                     (r.flags & ~MAP_FIXED_NOREPLACE) | MAP_FIXED, fd, r.offset);
}

/// From `low` on, past what the program has put there at addresses of its own choosing. The lock is held.
std::uintptr_t free_place(std::uintptr_t low, std::size_t bytes) noexcept {
  while (low < kWindowHigh && bytes <= kWindowHigh - low) {
    const Record* const r = meets(low, low + bytes);
    const std::uintptr_t past = r ? r->high : end_of_shared_in(low, low + bytes);
    if (past == 0) return low;
    low = past + kPage;
  }
  return 0;
}

bool is_elsewhere(const Record& r) noexcept { return r.owner != self || r.made != address_spaces.load(); }

/// From `at` on, inside of it, a record of its own. False: no room is left. The lock is held.
bool divide(Record& r, std::uintptr_t at) noexcept {
  Record* const rest = unused();
  if (!rest) return false;
  *rest = r;
  rest->offset += static_cast<off_t>(at - r.low);
  rest->low = r.high = at;
  share_descriptor(r.held);
  return true;
}

/// Takes [from, high) out of the record. Returns what must be unmapped in every address space. The lock is held.
Range cut_records(std::uintptr_t from, std::uintptr_t high) noexcept {
  Range everywhere{high, from};
  for (Record* r; (r = meets(from, high)) != nullptr;) {
    const std::uintptr_t low = r->low < from ? from : r->low, end = r->high < high ? r->high : high;
    if (r->low < low && end < r->high && divide(*r, end)) continue;
    if (!is_elsewhere(*r)) {
    } else if (is_noticed(r->held)) {
      if (low < everywhere.low) everywhere.low = low;
      if (end > everywhere.high) everywhere.high = end;
    } else {
      note_left(low, end);
    }
    if (r->low == low && r->high == end) {
      let_go_descriptor(r->held);
      *r = Record{};
    } else if (r->low == low) {
      r->offset += static_cast<off_t>(end - low);
      r->low = end;
    } else {
      r->high = low;
    }
  }
  return everywhere;
}

/// A record of its own for [low, high), all of it one mapping's. Null: none is there, or no room is left. The lock is held.
Record* split(std::uintptr_t low, std::uintptr_t high) noexcept {
  for (const std::uintptr_t at : {low, high}) {
    Record* const r = find(at == low ? low : high - 1);
    if (r && r->low != at && r->high != at && !divide(*r, at)) return nullptr;
  }
  return find(low);
}

/// What is cut out of the middle of a mapping leaves one more: it must have room before anything is changed. The lock is held.
bool has_room_to_cut(std::uintptr_t low, std::uintptr_t high) noexcept {
  Record* const r = find(low);
  return divide_shared_range(low, high) && (!r || r->low == low || r->high <= high || divide(*r, high));
}

void unmap_range(void* argument) {
  const Range r = *static_cast<const Range*>(argument);
  raw_syscall(SYS_munmap, static_cast<long>(r.low), static_cast<long>(r.high - r.low));
}

bool is_occupied(std::uintptr_t low, std::uintptr_t high) noexcept {  // the region is mapped all over
  return in_region(low) ? !take_pages_at(low, high - low) : is_mapped_here(low, high - low);
}

/// Makes the mapping here and records it; one without a place of its own gets it. 0, or -errno and nothing has changed.
long put(Record& r) noexcept {
  Quiet held(lock);
  if (!(r.flags & kFixed)) {
    const std::uintptr_t place = free_place(window_next, r.high);
    if (!place) return -ENOMEM;
    r.high += place, r.low = place;
  }
  const bool replaces = !(r.flags & MAP_FIXED_NOREPLACE);
  if (!replaces && (meets(r.low, r.high) || is_occupied(r.low, r.high))) return -EEXIST;
  Record* const place = unused();
  if (place) place->high = 1;  // in use from here on, and meets none
  if (const long mapped = place && has_room_to_cut(r.low, r.high) ? make(r) : -ENOMEM; failed(mapped)) {
    if (place) *place = Record{};
    if (!replaces && in_region(r.low)) give_pages(r.low, r.high - r.low);
    return mapped;
  }
  if (r.flags & kFixed) {  // replaced everywhere next: others may have left there what is nobody's any more
    cut_records(r.low, r.high);
    forget_left(r.low, r.high);
    forget_shared_range(r.low, r.high);
  }
  r.owner = r.flags & kFixed ? nullptr : self;
  r.made = address_spaces.load();
  *place = r;
  if (in_region(r.low)) files_in_region.fetch_add(1);
  if (!(r.flags & kFixed)) window_next = r.high + kPage;  // a gap: neighbours are never one mapping
  return 0;
}

/// The same, with a duplicate of `fd`. -1: of a new file in memory, for shared between address spaces means through a file.
long hold_and_put(Record& r, int fd) noexcept {
  const NoSignals once;
  const long file = fd < 0 ? open_memory_file("mortise-shared", r.high - r.low) : fd;
  if (failed(file)) return -ENOMEM;
  r.held = hold_descriptor(static_cast<int>(file));
  if (fd < 0) raw_syscall(SYS_close, file);
  if (r.held < 0) return r.held;
  const long wrong = put(r);
  if (failed(wrong)) let_go_descriptor(r.held);
  return wrong;
}

/// In every address space: the mappings as they are recorded by now, which another thread may have changed since.
void make_what_is_recorded(void* argument) {
  const Record r = *static_cast<const Record*>(argument);
  Quiet held(lock);
  for (std::size_t i = 0; i < top; ++i)
    if (records[i].low < r.high && r.low < records[i].high) make(records[i]);
}

/// In every address space that has them: the rights as they are recorded by now.
void apply_rights(void* argument) {
  const Range r = *static_cast<const Range*>(argument);
  Quiet held(lock);
  for (std::size_t i = 0; i < top; ++i) {
    const std::uintptr_t low = records[i].low < r.low ? r.low : records[i].low, high = records[i].high < r.high ? records[i].high : r.high;
    if (low < high) raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(high - low), records[i].protection);
  }
}

void* fail(long error) noexcept { return errno = static_cast<int>(error < 0 ? -error : error), MAP_FAILED; }

}  // namespace

void* map_file(void* where, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  const bool fixed = flags & kFixed;
  const bool is_shared = (flags & MAP_TYPE) != MAP_PRIVATE;
  const bool is_memory = !(flags & MAP_ANONYMOUS) && is_zero_device(fd);
  if (is_memory && !is_shared) return map_private(where, bytes, protection, flags);
  const bool anonymous = (flags & MAP_ANONYMOUS) || is_memory;  // and each mapping is another
  if (!anonymous) refuse_device(fd);
  const bool private_writable = !anonymous && (flags & MAP_TYPE) == MAP_PRIVATE && (protection & PROT_WRITE);
  if (private_writable && (fixed || bytes < kLazyLeast || (protection & PROT_EXEC)))
    return copy_file(where, bytes, protection, flags, fd, offset);
  Record r{};
  r.protection = private_writable ? PROT_READ : protection;
  r.low = fixed ? reinterpret_cast<std::uintptr_t>(where) : 0;
  r.high = r.low + page_ceil(bytes);
  r.flags = anonymous ? MAP_SHARED | (flags & kFixed) : flags;
  r.offset = anonymous ? 0 : offset;
  if (const long wrong = divide_lazy_file(r.low, r.high) ? hold_and_put(r, anonymous ? -1 : fd) : -ENOMEM; failed(wrong)) return fail(wrong);
  if (private_writable && !adopt_lazy_file(r.low, r.high)) {  // more than there is room for
    unmap_file(r.low, r.high - r.low);
    return copy_file(nullptr, bytes, protection, 0, fd, offset);
  }
  if (fixed) {  // others may have what lay there before
    forget_lazy_file(r.low, r.high);
    if (in_region(r.low)) claim_pages(r.low, r.high - r.low);
    note_protection(r.low, r.high, PROT_READ | PROT_WRITE);  // what the memory there had is not the file's
    everywhere(&make_what_is_recorded, &r);
  }
  return reinterpret_cast<void*>(r.low);
}

long protect_file(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  const bool has_room = divide_lazy_file(low, low + bytes);
  bool is_copied, is_less_for_others;
  {
    Quiet held(lock);
    if (!find(low)) return kNoFile;
    Record* const r = has_room ? split(low, low + bytes) : nullptr;
    if (!r) return -ENOMEM;
    is_copied = (r->flags & MAP_TYPE) == MAP_PRIVATE && (protection & PROT_WRITE);
    const int before = r->protection;
    r->protection = is_copied ? PROT_READ | (protection & PROT_EXEC) : protection;
    long result = raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(bytes), protection);
    if (result == -ENOMEM) result = make(*r);  // this thread has not touched it yet
    if (is_copied) raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(bytes), r->protection);
    if (failed(result)) return r->protection = before, result;
    is_less_for_others = (before & ~r->protection) && is_elsewhere(*r);
    r->owner = nullptr;
  }
  if (Range all{low, low + bytes}; is_less_for_others && is_thread() && live_threads.load() > 1) everywhere(&apply_rights, &all);
  forget_lazy_file(low, low + bytes);
  return is_copied ? open_to_writing(low, low + bytes, protection) : 0;
}

bool find_file(std::uintptr_t address, FoundFile& out, bool hold) noexcept {
  Quiet held(lock);
  const Record* const r = find(address);
  if (!r) return false;
  if (hold) share_descriptor(r->held);
  out = {r->low, r->high, r->offset, r->held, r->protection, r->flags};
  return true;
}

bool note_early_file(std::uintptr_t low, std::uintptr_t high, int protection, int flags) noexcept {
  Quiet held(lock);
  Record* const place = unused();
  if (!place) return false;
  *place = {low, high, 0, kNoDescriptor, protection, flags, nullptr, 0};
  if (in_region(low)) files_in_region.fetch_add(1);
  return true;
}

std::uintptr_t take_file_place(std::size_t bytes) noexcept {
  Quiet held(lock);
  const std::uintptr_t low = free_place(window_next, page_ceil(bytes));
  if (low) window_next = low + page_ceil(bytes) + kPage;
  return low;
}

void give_file_place(std::uintptr_t low, std::size_t bytes) noexcept {
  Quiet held(lock);
  if (window_next == low + page_ceil(bytes) + kPage) window_next = low + kPage;  // a gap, if only the end of one goes
}

bool lies_among_files(std::uintptr_t address) noexcept {
  constexpr std::uintptr_t kNear = 1ull << 30;
  return address >= kWindowLow && address < shared(window_next).load(std::memory_order_relaxed) + kNear;
}

bool in_file_window(std::uintptr_t address) noexcept {
  return address >= kWindowLow && address < shared(window_next).load(std::memory_order_relaxed);
}

bool has_files_in_region() noexcept { return files_in_region.load() != 0; }

bool has_mapped_file(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (in_region(low) && files_in_region.load() == 0) return false;
  Quiet held(lock);
  return meets(low, high) != nullptr;
}

std::uintptr_t piece_end(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (in_region(low) && files_in_region.load() == 0) return high;
  Quiet held(lock);
  if (const Record* r = find(low)) return r->high < high ? r->high : high;
  for (std::size_t i = 0; i < top; ++i)
    if (low < records[i].low && records[i].low < high && records[i].low < records[i].high) high = records[i].low;
  return high;
}

long unmap_file(std::uintptr_t low, std::size_t bytes) noexcept {
  if (in_region(low) && files_in_region.load() == 0) return kNoFile;  // nearly always, and each munmap comes here
  if (!divide_lazy_file(low, low + bytes) || !make_room_to_cut(low, low + bytes)) return -ENOMEM;
  forget_lazy_file(low, low + bytes);
  Range all;
  long result;
  {
    Quiet held(lock);
    const Record* const r = find(low);
    if (!r) return kNoFile;
    const bool was_last = r->low == low && low + bytes + kPage == window_next && !is_elsewhere(*r);
    all = cut_records(low, low + bytes);
    if (forget_shared_range(low, low + bytes)) all = {low, low + bytes};  // blocks that were written: memory
    result = raw_syscall(SYS_munmap, static_cast<long>(low), static_cast<long>(bytes));
    if (was_last && all.low >= all.high && !failed(result)) window_next = low;  // nobody else has ever seen it
  }
  if (all.low < all.high && !failed(result) && is_thread()) everywhere(&unmap_range, &all);
  if (is_left_full() && is_thread()) drop_left();
  return result;
}

bool make_room_to_cut(std::uintptr_t low, std::uintptr_t high) noexcept {
  Quiet held(lock);
  return has_room_to_cut(low, high);
}

void forget_files(std::uintptr_t low, std::size_t bytes) noexcept {
  forget_lazy_file(low, low + bytes);
  Quiet held(lock);
  cut_records(low, low + bytes);
  forget_left(low, low + bytes);
}

bool catch_up_file(std::uintptr_t address) noexcept {
  if (is_page_here(address)) return false;
  Quiet held(lock);
  Record* const r = find(address);
  if (!r || is_page_here(address) || failed(make(*r))) return false;  // again: a rendezvous may have brought it, and blocks that are memory
  if (r->owner != self) r->owner = nullptr;
  return true;
}

bool catch_up_file_rights(std::uintptr_t address, int needed) noexcept {
  Quiet held(lock);
  const Record* const r = find(address);
  if (!r || !(r->protection & needed) || find_shared_range(address)) return false;  // of memory others tell
  const bool is_private = (r->flags & MAP_TYPE) == MAP_PRIVATE;  // parts of it may be memory
  const std::uintptr_t low = is_private ? page_floor(address) : r->low, high = is_private ? low + kPage : r->high;
  return !failed(raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(high - low), r->protection));
}

Lock& file_lock() noexcept { return lock; }

}  // namespace mortise::isolate
