// early_moves.cpp: all address spaces have these by inheritance, and nobody can open their files again: each moves its own.
//
//   old place -> a place that no address space uses -> where the program wants it, after what lay there has gone everywhere
#include "early_moves.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "descriptors.hpp"
#include "file_maps.hpp"
#include "lazy_files.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "memory.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "rendezvous.hpp"
#include "share.hpp"
#include "signals.hpp"
#include "thread.hpp"
#include "windows.hpp"

namespace mortise::isolate {
namespace {

constexpr int kTo = MREMAP_MAYMOVE | MREMAP_FIXED;

struct Move {
  std::uintptr_t from;
  std::size_t old_bytes, new_bytes;
  int flags;
  std::uintptr_t to;
  const Thread* by;
  bool is_missing;  // somewhere
};

long move_here(const Move& m) noexcept {
  return raw_syscall(SYS_mremap, static_cast<long>(m.from), static_cast<long>(m.old_bytes), static_cast<long>(m.new_bytes), m.flags,
                     static_cast<long>(m.to));
}

void move_in_others(void* argument) {
  Move& m = *static_cast<Move*>(argument);
  if (m.by != self && failed(move_here(m))) shared(m.is_missing).store(true);
}

/// Here first: the kernel may have something against it.
long move_everywhere(Move& m) noexcept {
  m.by = self;
  const long result = move_here(m);
  if (!failed(result)) everywhere(&move_in_others, &m);
  return result;
}

/// Where it is. What follows may be free here and not in all others.
long grow_in_place(std::uintptr_t at, std::size_t old_bytes, std::size_t new_bytes) noexcept {
  Move m{at, old_bytes, new_bytes, 0, 0, nullptr, false};
  const long result = move_everywhere(m);
  if (failed(result)) return result;
  if (m.is_missing) {
    Move back{at, new_bytes, old_bytes, 0, 0, nullptr, false};
    move_everywhere(back);
    return -ENOMEM;
  }
  if (old_bytes > 0 && has_lazy_file(at)) adopt_lazy_file(at + old_bytes, at + new_bytes);
  return result;
}

/// Something that is kept account of lies there, or may come to lie there.
bool is_accounted(std::uintptr_t low, std::uintptr_t high) noexcept {
  return in_region(low) || in_window(low) || in_window(high - 1) || lies_among_files(low) || has_mapped_file(low, high) ||
         end_of_shared_in(low, high) != 0;
}

bool note_moved(std::uintptr_t low, std::uintptr_t high) noexcept {
  Maps maps;
  for (Mapping m; maps.next(m);)
    if (m.low <= low && low < m.high) return note_early_file(low, high, m.protection(), m.shared ? MAP_SHARED : MAP_PRIVATE);
  return false;
}

/// From the place that nobody uses.
long move_to_target(std::uintptr_t place, std::size_t bytes, std::uintptr_t to) noexcept {
  const bool is_noted = in_region(to) || lies_among_files(to);
  if (is_accounted(to, to + bytes)) {
    void* const low = reinterpret_cast<void*>(to);
    if (!make_room_to_cut(to, to + bytes) ||
        map_private(low, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE) == MAP_FAILED)
      return -ENOMEM;
  }
  Move m{place, bytes, bytes, kTo, to, nullptr, false};
  if (const long moved = move_everywhere(m); failed(moved)) return moved;
  forget_shared_range(to, to + bytes);
  return is_noted && !note_moved(to, to + bytes) ? -ENOMEM : static_cast<long>(to);
}

long move_away(std::uintptr_t at, std::size_t old_bytes, std::size_t new_bytes, int flags, std::uintptr_t target) noexcept {
  const bool is_lazy = has_lazy_file(at), stays = flags & MREMAP_DONTUNMAP;
  const std::uintptr_t place = take_file_place(new_bytes);
  if (!place || !divide_lazy_file(at, at + old_bytes)) return -ENOMEM;
  Move m{at, old_bytes, new_bytes, kTo | flags, place, nullptr, false};
  long result = move_everywhere(m);
  if (failed(result)) return give_file_place(place, new_bytes), result;
  if (target) result = move_to_target(place, new_bytes, target);
  if (failed(result)) {
    Move back{place, new_bytes, old_bytes, kTo, at, nullptr, false};
    if (old_bytes > 0) move_everywhere(back);
    return result;
  }
  if (is_moved_early_file(at) && old_bytes > 0 && !stays) unmap_memory(reinterpret_cast<void*>(at), old_bytes);
  if (!is_lazy) return result;
  if (!stays) forget_lazy_file(at, at + old_bytes);
  const auto low = static_cast<std::uintptr_t>(result);
  return adopt_lazy_file(low, low + new_bytes) ? result : -ENOMEM;
}

long move(std::uintptr_t at, std::size_t old_bytes, std::size_t new_bytes, int flags, std::uintptr_t target) noexcept {
  if (target || (flags & MREMAP_DONTUNMAP)) return move_away(at, old_bytes, new_bytes, flags, target);
  if (old_bytes > 0 && new_bytes <= old_bytes) {
    if (!is_page_here(at)) return -EFAULT;
    if (new_bytes < old_bytes && unmap_memory(reinterpret_cast<void*>(at + new_bytes), old_bytes - new_bytes) != 0) return -errno;
    return static_cast<long>(at);
  }
  if (flags & MREMAP_MAYMOVE) return move_away(at, old_bytes, new_bytes, flags, 0);
  return is_moved_early_file(at) ? -ENOMEM : grow_in_place(at, old_bytes, new_bytes);
}

}  // namespace

bool is_moved_early_file(std::uintptr_t address) noexcept {
  FoundFile r;
  return find_file(address, r) && r.held == kNoDescriptor;
}

void make_written_early_file_memory(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (!has_lazy_files() || !end_of_shared_in(low, high) || !promote_all(low, high, PROT_READ | PROT_WRITE)) return;
  if (!is_moved_early_file(low)) return;
  forget_files(low, high - low);
  if (in_region(low)) forget_shared_range(low, high);
}

long move_early_file(std::uintptr_t at, std::size_t old_bytes, std::size_t new_bytes, int flags, std::uintptr_t target) noexcept {
  if (!is_thread())
    return raw_syscall(SYS_mremap, static_cast<long>(at), static_cast<long>(old_bytes), static_cast<long>(new_bytes), flags,
                       static_cast<long>(target));
  const std::uint64_t mask = block_program_signals();
  const long result = move(at, old_bytes, new_bytes, flags, target);
  restore_signals(mask);
  return result;
}

}  // namespace mortise::isolate
