// A layer for tests that stands on a source and checks each call it receives.
//
//   [ the stack under test ]
//   [ Recording            ]  is every released block one that was given, once, with its size? is each request well formed?
//   [ a real source        ]  and: the N-th request can be made to fail
//
// Requests are allocate(), meta() and back_side(): whatever can meet a system without memory.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "mortise/core/core.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/source/shared_heap.hpp"

namespace mortise::test {

struct Recording {
  static constexpr const char* kName = "Recording";

  /// Counts requests and fails the chosen one; forwards what PageIndex wants of a source that has it.
  template <class Below> class Gate : public Passthrough<Below> {
   public:
    std::size_t requests = 0;
    std::size_t fail_at = 0;  ///< the number of the request that fails; 0: none
    bool is_empty = false;    ///< every request fails
    bool go_on() noexcept { return ++requests != fail_at && !is_empty; }
  };
  template <Contiguous Below> class Gate<Below> : public Passthrough<Below> {
   public:
    static constexpr std::size_t kGranule = Below::kGranule;
    static constexpr std::size_t kReach = Below::kReach;
    std::byte* origin() noexcept { return this->below.origin(); }
    std::byte* side(std::size_t n) noexcept { return this->below.side(n); }
    bool back_side(std::byte* at, std::size_t n) noexcept {
      if (!go_on() || !this->below.back_side(at, n)) return false;
      sides_.emplace_back(at, n);
      return true;
    }
    ~Gate() {
      if constexpr (PurgesPages<Below>)  // memory of the system's, not of an arena
        for (const auto& [at, n] : sides_) os::unmap(at, n);
    }

    std::size_t requests = 0;
    std::size_t fail_at = 0;
    bool is_empty = false;    ///< every request fails
    bool go_on() noexcept { return ++requests != fail_at && !is_empty; }

   private:
    std::vector<std::pair<std::byte*, std::size_t>> sides_;
  };

  /// Forwards what SubHeaps wants of a source.
  template <Slotted Below> class Gate<Below> : public Passthrough<Below> {
   public:
    static constexpr std::size_t kGranule = Below::kGranule;
    static constexpr std::size_t kReach = Below::kReach;
    static constexpr std::size_t kSlotBytes = Below::kSlotBytes;
    static constexpr unsigned kSlotCount = Below::kSlotCount;
    std::byte* origin() const noexcept { return this->below.origin(); }
    std::byte* slot_origin(unsigned slot) noexcept { return this->below.slot_origin(slot); }
    std::size_t requests = 0;
    std::size_t fail_at = 0;
    bool is_empty = false;
    bool go_on() noexcept { return ++requests != fail_at && !is_empty; }
  };

  template <Heap Below> class Over : public Gate<Below> {
   public:
    using typename Passthrough<Below>::Thread;

    /// A heap never gives everything back; a test with many heaps must.
    ~Over() {
      Thread nobody{};
      for (const auto& [ptr, bytes] : held_) this->below.release(nobody, {ptr, bytes});
    }

    Block allocate(Thread& t, Request r) noexcept {
      return recorded(r, [&] { return this->below.allocate(t, r); });
    }
    Block allocate_in(Thread& t, unsigned slot, Request r) noexcept requires Slotted<Below> {
      return recorded(r, [&] { return this->below.allocate_in(t, slot, r); });
    }
    void release_part(Thread&, Block) = delete;  // what is given here comes back as it was given
    void release(Thread& t, Block b) noexcept {
      const std::lock_guard guard(lock_);
      const auto it = held_.find(b.ptr);
      if (it == held_.end()) {
        ADD_FAILURE() << "a block was released that the source never gave, or twice";
        return;
      }
      EXPECT_TRUE(b.is_unsized() || b.size == it->second) << "released with another size than given";
      held_bytes_ -= it->second;
      held_.erase(it);
      this->below.release(t, b);
    }
    std::byte* meta(std::size_t n) noexcept requires GivesMeta<Below> {
      const std::lock_guard guard(lock_);
      return this->go_on() ? this->below.meta(n) : nullptr;
    }

    std::size_t held_bytes() const noexcept { return held_bytes_; }

   private:
    template <class Ask> Block recorded(Request r, Ask ask) noexcept {
      const std::lock_guard guard(lock_);
      EXPECT_TRUE(is_power_of_two(r.align)) << "a request with an alignment of " << r.align;
      if (!this->go_on()) return {};
      const Block b = ask();
      if (!b) return b;
      EXPECT_GE(b.size, r.size);
      EXPECT_TRUE(is_aligned(b.ptr, r.align));
      const auto after = held_.lower_bound(b.ptr);
      EXPECT_TRUE(after == held_.end() || b.end() <= after->first) << "the source gave overlapping blocks";
      EXPECT_TRUE(after == held_.begin() || std::prev(after)->first + std::prev(after)->second <= b.ptr)
          << "the source gave overlapping blocks";
      held_[b.ptr] = b.size;
      held_bytes_ += b.size;
      return b;
    }

    std::mutex lock_;
    std::map<std::byte*, std::size_t> held_;
    std::size_t held_bytes_ = 0;
  };
};

/// The Recording of a stack.
template <class H> auto& recording_of(H& h) noexcept {
  if constexpr (requires { h.held_bytes(); }) return h;
  else return recording_of(h.below);
}

}  // namespace mortise::test
