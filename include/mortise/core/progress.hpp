// What a thread may have to wait for: a claim that each layer makes and the compiler combines.
#pragma once

namespace mortise {

/// How far a call depends on other threads. Ordered from weakest to strongest.
enum class Guarantee {
  blocking,   ///< may wait for a thread that holds a lock
  lock_free,  ///< some thread always gets on
  wait_free,  ///< every call ends within a bounded number of its own steps
};

constexpr Guarantee weakest(Guarantee a, Guarantee b) { return a < b ? a : b; }

/// A stack's claim, per path. `hit`: served by the topmost cache. `refill`: the caches are refilled from memory the stack
/// already has. `grow`: new memory is asked of the source, that is, of the operating system.
struct Progress {
  Guarantee hit = Guarantee::blocking;
  Guarantee refill = Guarantee::blocking;
  Guarantee grow = Guarantee::blocking;

  static constexpr Progress of(Guarantee g) { return {g, g, g}; }
  constexpr bool operator==(const Progress&) const = default;
};

constexpr Progress weakest(Progress a, Progress b) {
  return {weakest(a.hit, b.hit), weakest(a.refill, b.refill), weakest(a.grow, b.grow)};
}

constexpr const char* name_of(Guarantee g) {
  return g == Guarantee::blocking ? "blocking" : g == Guarantee::lock_free ? "lock_free" : "wait_free";
}

}  // namespace mortise
