// The Chooser slot: from which pool does an object of this size, asked for at this call, come?
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/core/core.hpp"
#include "mortise/sync/atomics.hpp"
#include "mortise/sync/fork_attempt.hpp"
#include "mortise/sync/futex_lock.hpp"

namespace mortise {

struct PoolHead;

/// The objects that belong together. Made by a Chooser, from memory that lives as long as the process. Changed under the
/// Chooser's lock but for `orphans`, which is under the layer's.
struct Pool {
  std::uint32_t id;               ///< small and dense, from 1
  std::uint32_t size_class;       ///< class c holds objects of up to 16·c bytes
  std::uint32_t tag;              ///< the Chooser's own
  bool is_forwarding;             ///< objects come from the heap below: lookups are made, and nothing else
  bool is_mixed;                  ///< of several sizes; `size_class` is 0 then
  Atomic<Pool*> successor;        ///< from now on objects come from there
  PoolHead* orphans;              ///< heads whose threads have ended
  void* mixed;                    ///< what serves it, if it is mixed. The layer's own

  std::size_t stride() const noexcept { return std::size_t{size_class} * kMinAlign; }
  /// The pool from which objects come today.
  Pool* today() noexcept {
    Pool* p = this;
    while (Pool* next = p->successor.load(Order::acquire)) p = next;
    return p;
  }
};

/// How to go from the frame of a wrapper to its caller's. Constant once made, and never released.
struct alignas(8) CallStep {
  std::int32_t cfa_offset;      ///< from the stack pointer after the callee's return, or from rbp
  std::int16_t rbp_offset;      ///< where the caller's rbp lies, from the CFA; 0 when the wrapper left it alone
  bool from_rbp;
  std::uint16_t id;             ///< of the way that leads here; the next key's
};

using CallKey = std::uint64_t;
inline constexpr unsigned kCallKeyShift = 48;
constexpr CallKey call_key(std::uintptr_t return_address, unsigned id) noexcept {
  return return_address | std::uint64_t{id} << kCallKeyShift;
}

/// Where the frames of wrappers are looked for: upwards from `sp`.
struct CallFrame {
  std::uintptr_t sp;   ///< the stack pointer after the return from the callee
  std::uintptr_t rbp;
  bool has_rbp;        ///< on a hit, the frame register is not read; a step that needs it is a miss then

  /// Goes up by `s`. False when the frame would not lie on this stack, up to `stack_end`: a rule that is stale or meant for
  /// another stack must not be followed.
  MORTISE_HOT bool climb(const CallStep& s, std::uintptr_t stack_end) noexcept {
    if (s.from_rbp && !has_rbp) return false;
    const std::uintptr_t cfa = (s.from_rbp ? rbp : sp) + static_cast<std::uintptr_t>(std::intptr_t{s.cfa_offset});
    if (cfa <= sp || cfa > stack_end) return false;
    if (s.rbp_offset) {
      const std::uintptr_t at = cfa + static_cast<std::uintptr_t>(std::intptr_t{s.rbp_offset});
      if (at < sp) return false;
      rbp = *reinterpret_cast<const std::uintptr_t*>(at);
      has_rbp = true;
    }
    sp = cfa;
    return true;
  }
  std::uintptr_t return_address() const noexcept { return reinterpret_cast<const std::uintptr_t*>(sp)[-1]; }
};

/// What a Chooser says of a call: the ways that led there, for the cache, and the pool.
struct CallChoice {
  static constexpr unsigned kStepsMax = 8;
  struct Hop {
    CallKey key;
    const CallStep* step;
  };
  Hop hop[kStepsMax];
  unsigned hops = 0;
  CallKey key = 0;         ///< the last one, of the pool
  Pool* pool = nullptr;    ///< null: not yet decided; this object comes from the heap below
  std::uint32_t tag = 0;   ///< the Chooser's own, until it is told the object's address
};

/// Where a call of malloc was made, as a Chooser sees it on a miss.
struct CallSite {
  std::uintptr_t address;                ///< malloc's return address; 0 for a Chooser that does not read calls
  CallFrame frame;
  std::uintptr_t stack_end;
  const std::uintptr_t* callee_saved;    ///< rbx rbp r12 r13 r14 r15 at the call
};

/// Where an address lies in a pool: which one, and the object's first byte. Empty when in none.
struct PooledObject {
  Pool* pool = nullptr;
  std::byte* start = nullptr;
};

/// Told of every segment in use: its pool, the objects that are out of it, and how many it has room for.
using PoolSurvey = void (*)(void* context, Pool& pool, std::uint32_t live, std::uint32_t room) noexcept;

/// The slot's question: from which pool does an object of this size class, asked for at this call, come?
/// `choose` runs on misses only and may lock; `gave` is called with every object that it left undecided.
template <class C> concept ChooserPolicy = requires(C& c, const CallSite& site, CallChoice& choice, void* p, std::size_t n) {
  { C::kReadsCalls } -> std::convertible_to<bool>;
  { c.start() } noexcept -> std::same_as<bool>;
  { c.choose(site, n, choice) } noexcept -> std::same_as<void>;
  { c.gave(site, choice, p, n) } noexcept -> std::same_as<void>;
  { c.epoch() } noexcept -> std::same_as<std::uint32_t>;     ///< changes when steps have become invalid (unloaded code)
  { c.object_bytes_max() } noexcept -> std::same_as<std::size_t>;
  c.lock_all(); c.unlock_all(); c.reset_after_fork();
};

/// Says at times whether looking up still pays. `grew` is told of the segments that a pool takes, with the first object of the last, and
/// `forwarded`, where a pool takes none, of the objects that the heap below missed. `renew` is asked when so many of a pool's objects were
/// looked up as it said the last time: how many more, or 0 when the pool's class is to be closed. `passed` is told of some objects of
/// classes that are closed, and says whether to open the class again. A class is not looked up before `missed`, told of each miss that the
/// heap below has in it, says so. They run on misses and may lock.
template <class C> concept Leases = requires(C& c, const CallSite& site, Pool& pool, std::size_t n, std::uint32_t count, std::byte* p) {
  { c.grew(pool, count, p) } noexcept -> std::same_as<void>;
  { c.forwarded(pool, p) } noexcept -> std::same_as<void>;
  { c.renew(pool, count) } noexcept -> std::same_as<std::uint32_t>;
  { c.passed(site, n) } noexcept -> std::same_as<bool>;
  { c.missed(count) } noexcept -> std::same_as<bool>;
};

/// Looks at sizes alone: one pool a size class. The control for every other Chooser, and good in itself. Thread-safe.
/// `kBytesMax` (16..1024): the largest object that comes from a pool.
template <std::size_t kBytesMax = 128> class BySizeClass {
 public:
  static constexpr const char* kName = "BySizeClass";
  static constexpr const char* kWhat = "looks at sizes alone: one pool a size class";
  static constexpr bool kReadsCalls = false;

  bool start() noexcept { return true; }
  static constexpr std::size_t object_bytes_max() noexcept { return kBytesMax; }
  static constexpr std::uint32_t epoch() noexcept { return 0; }

  void choose(const CallSite&, std::size_t size, CallChoice& choice) noexcept {
    const auto c = static_cast<std::uint32_t>(size ? (size + kMinAlign - 1) / kMinAlign : 1);
    Held held(lock_);
    choice.key = call_key(0, c);
    choice.pool = &pool_[c];
    if (!choice.pool->id) choice.pool->id = choice.pool->size_class = c;
  }
  void gave(const CallSite&, CallChoice&, void*, std::size_t) noexcept {}

  void lock_all() noexcept { hold(lock_); }
  void unlock_all() noexcept { let_go(lock_); }
  void reset_after_fork() noexcept { lock_.reset(); }

 private:
  FutexLock lock_;
  Pool pool_[kBytesMax / kMinAlign + 1] = {};
};

}  // namespace mortise
