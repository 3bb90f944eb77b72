// The explorer's side of the seam: the same names as include/mortise/sync/atomics.hpp, each access a step of the
// search. Objects have the size and the layout of the shipped ones, so that layouts asserted in shipped code hold here
// too.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "explorer/hooks.hpp"

namespace mortise {

using Order = std::memory_order;
using Where = std::source_location;

constexpr int builtin_order(Order order) noexcept { return static_cast<int>(order); }

constexpr Order failure_order(Order order) noexcept {
  if (order == Order::acq_rel) return Order::acquire;
  if (order == Order::release) return Order::relaxed;
  return order;
}

inline void fence(Order order, Where where = Where::current()) noexcept { model::hooks::fence(order, where); }
inline void compiler_fence() noexcept {}
inline void cpu_relax(Where where = Where::current()) noexcept { model::hooks::relax(where); }

namespace model {

template <class T>
Value to_value(const T& object) noexcept {
  Value value;
  std::memcpy(static_cast<void*>(&value), &object, sizeof(T));
  return value;
}

template <class T>
T from_value(const Value& value) noexcept {
  std::remove_const_t<T> object;
  std::memcpy(static_cast<void*>(&object), &value, sizeof(T));
  return object;
}

}  // namespace model

template <class T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T>, "Atomic<T>: T is copied bit by bit and must be trivially copyable");
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                "Atomic<T>: T must have 1, 2, 4 or 8 bytes; two words are an AtomicPair");

 public:
  constexpr Atomic() noexcept : value_{} { constructed(); }
  constexpr explicit Atomic(T value) noexcept : value_{value} { constructed(); }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(Order order, Where where = Where::current()) const noexcept {
    return perform(model::Kind::load, T{}, order, where);
  }
  void store(T value, Order order, Where where = Where::current()) noexcept {
    perform(model::Kind::store, value, order, where);
  }
  T exchange(T value, Order order, Where where = Where::current()) noexcept {
    return perform(model::Kind::exchange, value, order, where);
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure,
                             Where where = Where::current()) noexcept {
    return compare(true, expected, desired, success, failure, where);
  }
  bool compare_exchange_strong(T& expected, T desired, Order success, Order failure,
                               Where where = Where::current()) noexcept {
    return compare(false, expected, desired, success, failure, where);
  }
  bool compare_exchange_weak(T& expected, T desired, Order order, Where where = Where::current()) noexcept {
    return compare(true, expected, desired, order, failure_order(order), where);
  }
  bool compare_exchange_strong(T& expected, T desired, Order order, Where where = Where::current()) noexcept {
    return compare(false, expected, desired, order, failure_order(order), where);
  }
  T fetch_add(T value, Order order, Where where = Where::current()) noexcept
    requires std::is_integral_v<T>
  {
    return perform(model::Kind::add, value, order, where);
  }
  T fetch_sub(T value, Order order, Where where = Where::current()) noexcept
    requires std::is_integral_v<T>
  {
    return perform(model::Kind::sub, value, order, where);
  }
  T fetch_or(T value, Order order, Where where = Where::current()) noexcept
    requires std::is_integral_v<T>
  {
    return perform(model::Kind::bit_or, value, order, where);
  }
  T fetch_and(T value, Order order, Where where = Where::current()) noexcept
    requires std::is_integral_v<T>
  {
    return perform(model::Kind::bit_and, value, order, where);
  }
  T* address() noexcept { return &value_; }

 private:
  constexpr void constructed() noexcept {
    if (!std::is_constant_evaluated()) model::hooks::construct(&value_, sizeof(T), model::to_value(value_));
  }
  T perform(model::Kind kind, T operand, Order order, Where where) const noexcept {
    model::Operation op{.kind = kind,
                        .order = order,
                        .address = &value_,
                        .bytes = sizeof(T),
                        .operand = model::to_value(operand),
                        .where = where};
    model::hooks::perform(op);
    return model::from_value<T>(op.result);
  }
  bool compare(bool weak, T& expected, T desired, Order success, Order failure, Where where) noexcept {
    model::Operation op{.kind = model::Kind::compare_exchange,
                        .order = success,
                        .failure = failure,
                        .weak = weak,
                        .address = &value_,
                        .bytes = sizeof(T),
                        .operand = model::to_value(desired),
                        .expected = model::to_value(expected),
                        .where = where};
    model::hooks::perform(op);
    if (!op.success) expected = model::from_value<T>(op.result);
    return op.success;
  }

  alignas(sizeof(T)) T value_;
};

template <class T>
class AtomicPair {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == 16, "AtomicPair<T>: T must be 16 plain bytes");
  static_assert(std::has_unique_object_representations_v<T>, "AtomicPair<T>: T must have no padding");

 public:
  constexpr AtomicPair() noexcept = default;
  AtomicPair(const AtomicPair&) = delete;
  AtomicPair& operator=(const AtomicPair&) = delete;

  T load_halves(Order order, Where where = Where::current()) const noexcept {
    model::Operation low{
        .kind = model::Kind::load_low, .order = order, .address = &value_, .bytes = 16, .where = where};
    model::Operation high = low;
    high.kind = model::Kind::load_high;
    model::hooks::perform(low);
    model::hooks::perform(high);
    return model::from_value<T>({low.result.low, high.result.high});
  }
  bool compare_exchange(T& expected, T desired, Where where = Where::current()) noexcept {
    model::Operation op{.kind = model::Kind::compare_exchange,
                        .order = Order::acq_rel,
                        .failure = Order::acquire,
                        .address = &value_,
                        .bytes = 16,
                        .operand = model::to_value(desired),
                        .expected = model::to_value(expected),
                        .where = where};
    model::hooks::perform(op);
    if (!op.success) expected = model::from_value<T>(op.result);
    return op.success;
  }
  /// One word of the pair, by exchanges of the whole pair that are repeated while only the other word differs.
  bool compare_exchange_high(std::uint64_t& expected, std::uint64_t desired, Where where = Where::current()) noexcept {
    model::Value whole = model::to_value(load_halves(Order::relaxed, where));
    for (;;) {
      whole.high = expected;
      T before = model::from_value<T>(whole);
      if (compare_exchange(before, model::from_value<T>({whole.low, desired}), where)) return true;
      whole = model::to_value(before);
      if (whole.high != expected) {
        expected = whole.high;
        return false;
      }
    }
  }

 private:
  alignas(16) model::Value value_{};
};

template <class T>
class Shared {
  static_assert(std::is_trivially_copyable_v<T>, "Shared<T>: T is a plain field and must be trivially copyable");

 public:
  constexpr Shared() noexcept : value_{} { touch(true, Where::current()); }
  constexpr explicit Shared(T value) noexcept : value_{value} { touch(true, Where::current()); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  constexpr T get(Where where = Where::current()) const noexcept {
    touch(false, where);
    return value_;
  }
  constexpr void set(T value, Where where = Where::current()) noexcept {
    touch(true, where);
    value_ = value;
  }
  constexpr operator T() const noexcept { return get(); }
  constexpr Shared& operator=(T value) noexcept {
    set(value);
    return *this;
  }
  constexpr T operator->() const noexcept
    requires std::is_pointer_v<T>
  {
    return get();
  }

 private:
  constexpr void touch(bool write, Where where) const noexcept {
    if (!std::is_constant_evaluated()) model::hooks::plain_access(&value_, write, where);
  }

  T value_;
};

}  // namespace mortise
