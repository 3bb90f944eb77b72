// The seam: every word that two threads touch goes through this file.
//
//   shipped code: #include "mortise/sync/atomics.hpp"
//      ├── in builds:  include/mortise/sync/atomics.hpp               this file
//      └── in models:  tests/model/include/mortise/sync/atomics.hpp   the explorer's
//
// A model test puts `tests/model/include` before `include` on the include path. The same text of the shipped header
// then runs on the explorer's types: no macro, no template parameter, no second copy of the algorithm that could drift
// from the first.
//
//   Atomic<T>      a word of 1, 2, 4 or 8 bytes; every operation names its order
//   AtomicPair<T>  two words changed by one compare-exchange (cmpxchg16b, ldxp/stxp), for pointer-and-tag heads
//   Shared<T>      a plain field that threads hand to each other; under the explorer a race on it is reported
//   fence, compiler_fence, cpu_relax
//
// A spin loop must contain cpu_relax(): it costs a pause in builds, and tells the explorer that this thread waits for
// another.
//
// Progress: every operation is wait-free on x86-64 and with LSE on aarch64; AtomicPair on aarch64 is lock-free.
// Placement: leans on nothing but the check of the language. Nothing here calls libatomic or the C++ run-time library.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mortise/core/standard.hpp"

// ThreadSanitizer does not see what assembly does: the two-word exchange tells it.
#if defined(__SANITIZE_THREAD__)
#define MORTISE_TELL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MORTISE_TELL_TSAN 1
#endif
#endif
#if defined(MORTISE_TELL_TSAN)
extern "C" void __tsan_acquire(void* word);
extern "C" void __tsan_release(void* word);
#endif

namespace mortise {

/// The order of an operation: `Order::relaxed`, `acquire`, `release`, `acq_rel` or `seq_cst`. There is no default on
/// purpose. Not std::memory_order: <atomic> brings mutexes and strings with it, and a C library of the compiler's choice.
enum class Order : int {
  relaxed = __ATOMIC_RELAXED,
  acquire = __ATOMIC_ACQUIRE,
  release = __ATOMIC_RELEASE,
  acq_rel = __ATOMIC_ACQ_REL,
  seq_cst = __ATOMIC_SEQ_CST
};

/// Turns `order` into what the compiler's builtins take.
[[gnu::always_inline]] constexpr int builtin_order(Order order) noexcept { return static_cast<int>(order); }

/// The order that the failing side of a compare-exchange may have: the same without its release part.
[[gnu::always_inline]] constexpr Order failure_order(Order order) noexcept {
  if (order == Order::acq_rel) return Order::acquire;
  if (order == Order::release) return Order::relaxed;
  return order;
}

/// Orders the accesses of this thread before it against those after it, as std::atomic_thread_fence does.
[[gnu::always_inline]] inline void fence(Order order) noexcept { __atomic_thread_fence(builtin_order(order)); }

/// Keeps the compiler from moving accesses across it; emits nothing. The light side of a fence whose heavy side is a
/// membarrier, and what orders a restartable sequence against its own thread.
[[gnu::always_inline]] inline void compiler_fence() noexcept { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/// Tells the processor that this thread spins.
[[gnu::always_inline]] inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// A word shared between threads. Lock-free always; wait-free where the processor has the operation.
/// All-zero and constant-initialised unless given a value, so that a `constinit` heap may hold it.
template <class T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T>, "Atomic<T>: T is copied bit by bit and must be trivially copyable");
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                "Atomic<T>: T must have 1, 2, 4 or 8 bytes; two words are an AtomicPair");

 public:
  constexpr Atomic() noexcept : value_{} {}
  constexpr explicit Atomic(T value) noexcept : value_{value} {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[gnu::always_inline]] T load(Order order) const noexcept {
    T value;
    __atomic_load(&value_, &value, builtin_order(order));
    return value;
  }
  [[gnu::always_inline]] void store(T value, Order order) noexcept {
    __atomic_store(&value_, &value, builtin_order(order));
  }
  /// Puts `value` there and returns what was there.
  [[gnu::always_inline]] T exchange(T value, Order order) noexcept {
    T before;
    __atomic_exchange(&value_, &value, &before, builtin_order(order));
    return before;
  }
  /// Puts `desired` there if `expected` is there; else copies what is there into `expected`. The weak form may fail for
  /// no reason and belongs into loops.
  [[gnu::always_inline]] bool compare_exchange_weak(T& expected, T desired, Order success, Order failure) noexcept {
    return __atomic_compare_exchange(&value_, &expected, &desired, true, builtin_order(success),
                                     builtin_order(failure));
  }
  [[gnu::always_inline]] bool compare_exchange_strong(T& expected, T desired, Order success, Order failure) noexcept {
    return __atomic_compare_exchange(&value_, &expected, &desired, false, builtin_order(success),
                                     builtin_order(failure));
  }
  [[gnu::always_inline]] bool compare_exchange_weak(T& expected, T desired, Order order) noexcept {
    return compare_exchange_weak(expected, desired, order, failure_order(order));
  }
  [[gnu::always_inline]] bool compare_exchange_strong(T& expected, T desired, Order order) noexcept {
    return compare_exchange_strong(expected, desired, order, failure_order(order));
  }

  /// The arithmetic forms return what was there before.
  [[gnu::always_inline]] T fetch_add(T value, Order order) noexcept
    requires std::is_integral_v<T>
  {
    return __atomic_fetch_add(&value_, value, builtin_order(order));
  }
  [[gnu::always_inline]] T fetch_sub(T value, Order order) noexcept
    requires std::is_integral_v<T>
  {
    return __atomic_fetch_sub(&value_, value, builtin_order(order));
  }
  [[gnu::always_inline]] T fetch_or(T value, Order order) noexcept
    requires std::is_integral_v<T>
  {
    return __atomic_fetch_or(&value_, value, builtin_order(order));
  }
  [[gnu::always_inline]] T fetch_and(T value, Order order) noexcept
    requires std::is_integral_v<T>
  {
    return __atomic_fetch_and(&value_, value, builtin_order(order));
  }

  /// The word itself, for a futex, and for a restartable sequence whose last store is written in assembly.
  [[gnu::always_inline]] T* address() noexcept { return &value_; }

 private:
  alignas(sizeof(T)) T value_;
};

/// Two adjacent words changed as one. T is 16 bytes, trivially copyable, and has no padding (padding would be compared
/// too). Starts as all zero bits, constant-initialised. Strong on both processors.
template <class T>
class AtomicPair {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 16, "AtomicPair<T>: T must be 16 plain bytes");
  static_assert(std::has_unique_object_representations_v<T>, "AtomicPair<T>: T must have no padding");

 public:
  constexpr AtomicPair() noexcept = default;
  AtomicPair(const AtomicPair&) = delete;
  AtomicPair& operator=(const AtomicPair&) = delete;

  /// Reads each half by itself, the low one first: the halves may stem from two different moments. Good as the
  /// `expected` of a compare_exchange, which fails if they do; good for nothing else. Costs two plain loads on x86-64.
  [[gnu::always_inline]] T load_halves(Order order) const noexcept {
    Halves halves;
    halves.low = __atomic_load_n(&value_.low, builtin_order(order));
    halves.high = __atomic_load_n(&value_.high, builtin_order(order));
    return __builtin_bit_cast(T, halves);
  }

  /// Puts `desired` there if `expected` is there; else copies what is there into `expected`, both halves of one moment.
  /// The order of either outcome is at least acq_rel: the instruction has no weaker form on x86-64.
  [[gnu::always_inline]] bool compare_exchange(T& expected, T desired) noexcept {
    Halves old = __builtin_bit_cast(Halves, expected);
    const Halves next = __builtin_bit_cast(Halves, desired);
    before_exchange();
    const bool swapped = swap(old, next);
    after_exchange();
    if (!swapped) expected = __builtin_bit_cast(T, old);
    return swapped;
  }

  /// Puts `desired` into the second half if `expected` is there, whatever the first half holds; else copies what is
  /// there into `expected`. The order of success is acq_rel, of failure acquire. Half as wide and cheaper than the pair.
  [[gnu::always_inline]] bool compare_exchange_high(std::uint64_t& expected, std::uint64_t desired) noexcept {
    before_exchange();
    const bool swapped = __atomic_compare_exchange_n(&value_.high, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    after_exchange();
    return swapped;
  }

 private:
  struct Halves {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };

  [[gnu::always_inline]] void before_exchange() noexcept {
#if defined(MORTISE_TELL_TSAN)
    __tsan_release(&value_);
#endif
  }
  [[gnu::always_inline]] void after_exchange() noexcept {
#if defined(MORTISE_TELL_TSAN)
    __tsan_acquire(&value_);
#endif
  }

  [[gnu::always_inline]] bool swap(Halves& old, const Halves& next) noexcept {
#if defined(__x86_64__)
    bool swapped;
    asm volatile("lock cmpxchg16b %1"
                 : "=@ccz"(swapped), "+m"(value_), "+a"(old.low), "+d"(old.high)
                 : "b"(next.low), "c"(next.high)
                 : "memory");
    return swapped;
#elif defined(__aarch64__)
    // A pair that was only loaded is not known to be of one moment until a store-exclusive succeeds; so a mismatch
    // writes back what it read.
    std::uint64_t low, high, put_low, put_high;
    std::uint32_t failed;
    asm volatile(
        "1: ldaxp %0, %1, %5\n"
        "   cmp %0, %6\n"
        "   ccmp %1, %7, #0, eq\n"
        "   csel %2, %8, %0, eq\n"
        "   csel %3, %9, %1, eq\n"
        "   stlxp %w4, %2, %3, %5\n"
        "   cbnz %w4, 1b\n"
        : "=&r"(low), "=&r"(high), "=&r"(put_low), "=&r"(put_high), "=&r"(failed), "+Q"(value_)
        : "r"(old.low), "r"(old.high), "r"(next.low), "r"(next.high)
        : "cc", "memory");
    const bool swapped = low == old.low && high == old.high;
    old = Halves{low, high};
    return swapped;
#else
#error "mortise needs x86-64 or aarch64: there is no two-word compare-exchange for this processor"
#endif
  }

  alignas(16) Halves value_{};
};

/// A plain field that one thread writes and another reads after it was handed over. In builds it is exactly a T; under
/// the explorer two accesses that nothing orders, one of them a write, are reported as a race with both places.
template <class T>
class Shared {
  static_assert(std::is_trivially_copyable_v<T>, "Shared<T>: T is a plain field and must be trivially copyable");

 public:
  constexpr Shared() noexcept : value_{} {}
  constexpr explicit Shared(T value) noexcept : value_{value} {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  [[gnu::always_inline]] constexpr T get() const noexcept { return value_; }
  [[gnu::always_inline]] constexpr void set(T value) noexcept { value_ = value; }

  [[gnu::always_inline]] constexpr operator T() const noexcept { return get(); }
  [[gnu::always_inline]] constexpr Shared& operator=(T value) noexcept {
    set(value);
    return *this;
  }
  [[gnu::always_inline]] constexpr T operator->() const noexcept
    requires std::is_pointer_v<T>
  {
    return get();
  }

 private:
  T value_;
};

}  // namespace mortise
