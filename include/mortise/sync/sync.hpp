// The Sync slot's questions: how do threads exclude each other, and on which free list?
#pragma once

#include <concepts>

#include "mortise/core/inline.hpp"
#include "mortise/core/progress.hpp"
#include "mortise/sync/free_link.hpp"

namespace mortise {

/// A lock that fork can take: lock and unlock, and a way to start afresh in the child. All zero is a valid open lock.
template <class L>
concept Lock = requires(L& l) {
  { l.lock() } noexcept;
  { l.unlock() } noexcept;
  { l.reset() } noexcept;
  { L::kGuarantee } -> std::convertible_to<Guarantee>;
};

/// A set of free blocks that any thread may fill and empty. All zero is a valid empty one. `kReadsTakenBlocks`: a slow pop may read
/// the first word of a block that was handed out, so blocks must stay mapped for as long as the bin lives.
template <class B>
concept Bin = requires(B& b, FreeLink* link) {
  { b.push(link) } noexcept;
  { b.push_chain(link, link) } noexcept;
  { b.pop() } noexcept -> std::same_as<FreeLink*>;
  { b.steal_all() } noexcept -> std::same_as<FreeLink*>;
  { B::kGuarantee } -> std::convertible_to<Guarantee>;
  { B::kReadsTakenBlocks } -> std::convertible_to<bool>;
};

/// Holds a lock for a scope.
template <Lock L> class Held {
 public:
  explicit Held(L& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~Held() { lock_.unlock(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  L& lock_;
};

/// Runs `work` in a critical section of `lock`. Combining locks may run it on another thread: it must capture nothing that
/// belongs to the calling thread but what it was given.
template <Lock L, class Work> MORTISE_HOT auto with(L& lock, Work&& work) noexcept {
  if constexpr (requires { lock.with(work); }) return lock.with(work);
  else {
    Held<L> held(lock);
    return work();
  }
}

}  // namespace mortise
