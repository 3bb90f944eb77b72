// Releases that a guard checks from the bare pointer on: whether it is a block of this heap is a part of the guard's own question.
//
//   free ─► heap.release_at ─► done
//      ├─ checked: its quarantine is to be emptied first ─► release_checked: the rest of the way down, and nothing is asked twice
//      └─ refused ─► free_slow, which finds out why
#pragma once

#include <errno.h>

#include "abi/hits.hpp"

namespace mortise::abi {

/// The thread's record may be one that nobody has made (closed_state).
template <class H> concept ReleasesAt = kRefusesAsZero<typename H::Thread> && requires(H& h, typename H::Thread& t, std::byte* p) {
  { h.release_at(t, p) } noexcept -> std::same_as<Tried>;
  { h.release_checked(t, p) } noexcept -> std::same_as<void>;
};
template <class H> concept ReleasesAtBySize = ReleasesAt<H> && requires(H& h, typename H::Thread& t, std::byte* p, std::size_t n) {
  { h.release_at_of_size(t, p, n) } noexcept -> std::same_as<Tried>;
};

template <ReleasesAt H> MORTISE_HOT void release_checked_inline(H& h, std::byte* p) noexcept {
  const int error = errno;  // free leaves errno alone
  if (prepare_thread()) {
    h.release_checked(thread(), p);
    leave_if_ended();
    note_release();
  }
  errno = error;
}

template <ReleasesAt H> [[gnu::noinline]] void release_checked(H& h, std::byte* p) noexcept { release_checked_inline(h, p); }

/// False: nothing has happened to the block. `kAmongOthers`: in functions that have work left, of which a call would be the place that a
/// report names.
template <bool kAmongOthers = false, ReleasesAt H> MORTISE_HOT bool finish(H& h, std::byte* p, Tried tried) noexcept {
  if (tried == Tried::checked) [[unlikely]] {
    if constexpr (kAmongOthers) release_checked_inline(h, p);
    else release_checked(h, p);
  }
  return tried != Tried::refused;
}

}  // namespace mortise::abi
