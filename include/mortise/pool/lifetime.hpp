// The Lifetime slot: when does an object begin and end? A pool's hooks are the members of this policy; programs write
// their own by deriving from one of the two.
//
//                      constructed_each_time      kept_constructed
//   new slot           -                          make()
//   acquire            make(arguments)            -
//   release            destroy()                  reset()
//   trim, pool's end   -                          destroy()
#pragma once

#include <concepts>
#include <new>
#include <utility>

namespace mortise {

/// An object's life is from acquire to release, as with new and delete. Idle slots hold nothing. A `make` of one's own may fail by
/// returning null: the acquisition then fails.
template <class T>
struct constructed_each_time {
  static constexpr bool kKeeps = false;
  template <class... Arguments>
  T* make(void* at, Arguments&&... arguments) noexcept {
    return ::new (at) T(std::forward<Arguments>(arguments)...);
  }
  void destroy(T& object) noexcept { object.~T(); }
};

/// An object is made when its slot is first used and lives until it is trimmed or the pool ends: for connections,
/// buffers and whatever is dear to make. `make` may fail by returning null: the acquisition then fails and the slot
/// stays bare.
template <class T>
struct kept_constructed {
  static constexpr bool kKeeps = true;
  T* make(void* at) noexcept { return ::new (at) T(); }
  void reset(T&) noexcept {}
  void destroy(T& object) noexcept { object.~T(); }
};

template <class L, class T>
concept PoolLifetime = requires(L& life, T& object) {
  { L::kKeeps } -> std::convertible_to<bool>;
  { life.destroy(object) } noexcept;
} && (!L::kKeeps || requires(L& life, T& object, void* at) {
                         { life.make(at) } noexcept -> std::same_as<T*>;
                         { life.reset(object) } noexcept;
                       });

}  // namespace mortise
