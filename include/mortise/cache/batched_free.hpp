// Batches of free blocks on their way between cores: what one core's cache gives up, another takes, a lock a batch.
//
// A producer and a consumer on different cores would otherwise send every block through the slabs. Here a drained magazine is
// copied to a bounded stack of its class and copied out again by the next core that runs dry.
//
// Progress: blocking, one lock a class, held for a copy of a batch's pointers. Source: transfer cache [Ghemawat05].
// Placement: below a cache that works in batches, above a backbone that does.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

/// Of a class of which not even two may be kept, none is.
/// `kSlots` (4..65536): the most blocks kept of one class.
/// `kBytesMax` (0..1 GiB): the most bytes kept of one class.
/// `Sync`: the lock of a class.
template <unsigned kSlots = 256, std::size_t kBytesMax = 512_KiB, Lock Sync = FutexLock> struct BatchedFree {
  static constexpr const char* kName = "BatchedFree";
  static constexpr const char* kWhat = "batches of free blocks travel between cores, a lock a batch";
  static constexpr const char* kNeeds = "a backbone below that serves batches (Slab)";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).number("slots", kSlots).number("bytes_max", kBytesMax).policy("Sync", Sync::kName);
  }

  template <Heap Below> requires Classed<Below> && Batches<Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    using Classes = typename Below::Classes;
    static constexpr Progress kProgress = weakest(Below::kProgress, Progress::of(Sync::kGuarantee));

    unsigned allocate_batch(Thread& t, unsigned c, std::byte** out, unsigned n) noexcept {
      PerClass& k = classes_[c];
      {
        Held held(k.lock);
        const unsigned got = n < k.count ? n : k.count;
        if (got) {
          k.count -= got;
          std::memcpy(out, blocks(c) + k.count, got * sizeof *out);
          return got;
        }
      }
      return this->below.allocate_batch(t, c, out, n);
    }

    void release_batch(Thread& t, unsigned c, std::byte** in, unsigned n) noexcept {
      PerClass& k = classes_[c];
      unsigned kept;
      {
        Held held(k.lock);
        const unsigned room = capacity(c) - k.count;
        kept = n < room ? n : room;
        std::memcpy(blocks(c) + k.count, in, kept * sizeof *in);
        k.count += kept;
      }
      if (kept < n) this->below.release_batch(t, c, in + kept, n - kept);
    }

    std::size_t trim(Thread& t) noexcept {
      for (unsigned c = 1; c <= Classes::kCount; ++c) drain(t, c);
      return trim_below(this->below, t);
    }

    void lock_all() noexcept {
      for (auto& k : classes_) hold(k.lock);
      lock_below(this->below);
    }
    void unlock_all() noexcept {
      unlock_below(this->below);
      for (unsigned c = Classes::kCount + 1; c-- > 0;) let_go(classes_[c].lock);
    }
    void reset_after_fork() noexcept {
      for (auto& k : classes_) k.lock.reset();
      reset_below(this->below);
    }
    void tell(Usage& u) noexcept {
      tell_below(this->below, u);
      for (unsigned c = 1; c <= Classes::kCount; ++c) {
        Held held(classes_[c].lock);
        u.in_transit(plain_class<Classes>(c), Classes::size_of(c), classes_[c].count);
      }
    }

   private:
    struct alignas(64) PerClass {
      Sync lock;
      std::uint32_t count = 0;
    };
    static constexpr unsigned capacity(unsigned c) noexcept {
      const std::size_t fit = kBytesMax / Classes::size_of(c);
      return static_cast<unsigned>(fit < 2 ? 0 : fit > kSlots ? kSlots : fit);
    }
    /// Where the blocks of each class begin, each on a cache line of its own; large classes, which keep few, share pages.
    struct Layout {
      std::uint32_t first[Classes::kCount + 2];
    };
    static constexpr Layout laid_out() noexcept {
      Layout l{};
      for (unsigned c = 1; c <= Classes::kCount; ++c)
        l.first[c + 1] = static_cast<std::uint32_t>(l.first[c] + round_up(capacity(c), 64 / sizeof(std::byte*)));
      return l;
    }
    static constexpr Layout kLayout = laid_out();
    std::byte** blocks(unsigned c) noexcept { return blocks_ + kLayout.first[c]; }

    void drain(Thread& t, unsigned c) noexcept {
      constexpr unsigned kPiece = 64;
      std::byte* piece[kPiece];
      for (;;) {
        unsigned got;
        {
          PerClass& k = classes_[c];
          Held held(k.lock);
          got = k.count < kPiece ? k.count : kPiece;
          k.count -= got;
          std::memcpy(piece, blocks(c) + k.count, got * sizeof *piece);
        }
        if (!got) return;
        this->below.release_batch(t, c, piece, got);
      }
    }

    PerClass classes_[Classes::kCount + 1];
    alignas(64) std::byte* blocks_[kLayout.first[Classes::kCount + 1]] = {};
  };
};

}  // namespace mortise
