// If this fails, a thread that waits for an object of a pool sleeps although one came back, an acquisition fails while an object lies
// idle and nobody uses the pool, or an object is lost or handed out twice: the shipped pool is run in every interleaving that matters,
// with restartable sequences and, on the way without them, with locked magazines.
#include "mortise/pool/block_pool.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "explorer/hooks.hpp"
#include "running.hpp"

/// Time stands still: an execution is the same when it is repeated.
extern "C" int clock_gettime(clockid_t, timespec* ts) noexcept {
  *ts = {};
  return 0;
}

namespace mortise::model {
namespace {

constexpr unsigned kBlocks = 2;

/// An execution may be left half-way, so a pool's memory goes when the next one is made; which then gets the same addresses.
class Last {
 public:
  Last() noexcept {
    if (is_kept_) reinterpret_cast<pools::BlockPool*>(bytes_)->~BlockPool();
    is_kept_ = false;
  }
  void keep(const pools::BlockPool& pool) noexcept {
    std::memcpy(bytes_, static_cast<const void*>(&pool), sizeof pool);
    is_kept_ = true;
  }

 private:
  alignas(pools::BlockPool) static inline std::byte bytes_[sizeof(pools::BlockPool)];
  static inline bool is_kept_ = false;
};

/// What the kernel wipes in the child of a fork.
template <auto kControl>
struct Wipe {
  friend void wipe_control(pools::BlockPool& pool) {
    using Control = std::remove_reference_t<decltype(*(pool.*kControl))>;
    ::new (static_cast<void*>(pool.*kControl)) Control{};
  }
};
void wipe_control(pools::BlockPool& pool);
template struct Wipe<&pools::BlockPool::control_>;

struct Pool {
  [[no_unique_address]] Last last;
  pools::BlockPool pool;
  Shared<int> owned[kBlocks];

  /// `taken`: so many objects are out at the start, the others were never made.
  Pool(pool_front front, bool keeps, unsigned taken) {
    require(pool.start({.maximum = kBlocks, .front = front}, 64, 64, keeps), "the pool starts");
    last.keep(pool);
    hooks::run_on_core(0);
    for (unsigned i = 0; i < taken; ++i) own(pool.acquire_slow().block);
  }
  void own(std::byte* p) {
    if (!p) return;
    const std::uint32_t i = pool.slots().index_of(p);
    require(i < kBlocks, "what was handed out is no object");
    require(owned[i].get() == 0, "an object was handed out twice");
    owned[i].set(1);
  }
  std::byte* acquire() {
    std::byte* p = pool.acquire_hit();
    if (!p) p = pool.acquire_slow().block;
    own(p);
    return p;
  }
  std::byte* wait() {
    std::byte* p = pool.acquire_hit();
    if (!p) p = pool.acquire_wait(INT64_MAX).block;
    require(p, "a wait without end came back with nothing");
    own(p);
    return p;
  }
  void release(unsigned i) {
    owned[i].set(0);
    std::byte* const p = pool.slots().at(i);
    if (!pool.release_hit(p)) pool.release_slow(p);
  }
  void on(unsigned core) { hooks::run_on_core(static_cast<int>(core)); }
  /// At rest, whoever asks gets all that is idle, and what is given back misses no magazine.
  void finish() {
    on(0);
    for (unsigned i = 0; i < kBlocks; ++i) {
      bool is_idle = false;
      for (const auto& o : owned) is_idle |= o.get() == 0;
      std::byte* const p = is_idle ? acquire() : nullptr;
      require(p || !is_idle, "an object is lost");
    }
    require(!acquire(), "there is one object too many");
    release(0);
    std::byte* const p = acquire();
    require(pool.front() != pool_front::cores || pool.release_hit(p), "magazines are shut though nobody waits");
  }
};

template <pool_front kFront, bool kKeeps = false, unsigned kTaken = kBlocks> struct Of : Pool {
  static constexpr unsigned kThreads = 2;
  Of() : Pool(kFront, kKeeps, kTaken) {}
};

template <pool_front kFront> struct WaitAgainstRelease : Of<kFront> {
  void run(unsigned number) {
    this->on(number);
    if (number == 0) this->wait();
    else this->release(1);
  }
};
template <pool_front kFront> struct AcquireAgainstTwoReleases : Of<kFront> {
  void run(unsigned number) {
    this->on(number);
    if (number == 0) this->acquire();
    else this->release(0), this->release(1);
  }
};
template <pool_front kFront> struct FirstAcquisitions : Of<kFront, false, 0> {
  void run(unsigned number) {
    this->on(number);
    this->acquire();
  }
};
/// In the child of a fork two threads of one core make the first calls: one of them opens what was shut and held, the other must not
/// be inside of it then.
template <pool_front kFront> struct FirstCallsInAChild : Of<kFront> {
  FirstCallsInAChild() { wipe_control(this->pool); }
  void run(unsigned number) {
    this->on(0);
    this->release(number);
  }
};
/// An object lies idle, or comes just before the trim, or behind it; `kKeep` stay as they are.
enum class Comes { idle, before, behind };
template <bool kKeeps, Comes kComes, unsigned kKeep> struct TrimAgainstWait : Of<pool_front::cores, kKeeps> {
  TrimAgainstWait() {
    if (kComes == Comes::idle) this->release(1);
  }
  void run(unsigned number) {
    this->on(number);
    if (number == 1) return void(this->wait());
    if (kComes == Comes::before) this->release(1);
    this->pool.trim(kKeep, [](std::byte*) {});
    if (kComes == Comes::behind) this->release(1);
  }
};

/// The child of a fork amid a trim of another thread gets all that counts as idle there. A chain that was just going back stays in use.
template <bool kKeeps, unsigned kKeep> struct ForkAmidATrim {
  static constexpr unsigned kThreads = 2, kMaximum = 64, kChain = 32;
  [[no_unique_address]] Last last;
  pools::BlockPool pool;

  ForkAmidATrim() {
    require(pool.start({.maximum = kMaximum, .front = pool_front::cores}, 64, 64, kKeeps), "the pool starts");
    last.keep(pool);
    hooks::run_on_core(0);
    std::byte* some[4];
    for (std::byte*& p : some) p = pool.acquire_slow().block;
    for (std::byte* const p : some) pool.release_slow(p);
    trim(kMaximum);  // as chains on the stacks
  }
  void trim(unsigned keep) { pool.trim(keep, [](std::byte*) {}); }
  void run(unsigned number) {
    hooks::run_on_core(static_cast<int>(number));
    if (number == 1) trim(kKeep);
  }
  void stopped() {
    wipe_control(pool);
    hooks::run_on_core(0);
    bool is_out[kMaximum] = {};
    unsigned got = 0;
    for (std::byte* p; (p = pool.acquire_hit()) || (p = pool.acquire_slow().block); ++got) {
      bool& out = is_out[pool.slots().index_of(p)];
      require(!out, "an object was handed out twice");
      out = true;
    }
    require(got + kChain >= kMaximum, "more is missing than one chain");
    const pool_statistics s = pool.statistics();
    require(s.in_use == kMaximum && s.idle == 0 && s.bare == 0, "what nobody can have counts as idle");
  }
  void finish() {}
};

const Options kOnce{.aborts_max = 1, .steps_max = 1000};

TEST(BlockPool, WaitAgainstRelease) {
  run<WaitAgainstRelease<pool_front::cores>>("a wait against a release", kOnce);
  run<WaitAgainstRelease<pool_front::cpus>>("... locked magazines", kOnce);
}
TEST(BlockPool, AcquireAgainstTwoReleases) { run<AcquireAgainstTwoReleases<pool_front::cores>>("an acquisition against two releases", kOnce); }
TEST(BlockPool, FirstAcquisitions) { run<FirstAcquisitions<pool_front::cores>>("two first acquisitions", kOnce); }
TEST(BlockPool, FirstCallsInAChild) {
  run<FirstCallsInAChild<pool_front::cores>>("two first calls in the child of a fork", kOnce);
  run<FirstCallsInAChild<pool_front::cpus>>("... locked magazines", kOnce);
}
TEST(BlockPool, TrimAgainstWait) {
  run<TrimAgainstWait<false, Comes::idle, 0>>("a trim against a wait", kOnce);
  run<TrimAgainstWait<false, Comes::idle, 1>>("... that keeps the object", kOnce);
  run<TrimAgainstWait<true, Comes::before, 0>>("a release and a trim that destroys the object against a wait", kOnce);
  run<TrimAgainstWait<false, Comes::behind, 0>>("a trim and a release against a wait", kOnce);
}
TEST(BlockPool, ForkAmidATrim) {
  run<ForkAmidATrim<false, 0>>("a fork while another thread trims", {.freeze = true});
  run<ForkAmidATrim<false, 64>>("... and keeps all", {.freeze = true});
  run<ForkAmidATrim<true, 0>>("... and destroys all", {.freeze = true});
}

}  // namespace
}  // namespace mortise::model
