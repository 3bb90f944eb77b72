// A logic minimiser's sets: cubes of a boolean function are merged level by level, each cube a block of its own.
//
// Sets of pointers grow by realloc, are copied, sorted, made unique and thrown away, as two-level minimisers do. An
// operation is one cube made. The cubes of a level are counted by a second way of reckoning.
#include <algorithm>

#include "workload.hpp"

namespace {

struct Cube {
  std::uint32_t value;
  std::uint32_t free;  // the variables that do not matter
  bool merged;
};

struct Set {
  Cube** at = nullptr;
  std::size_t count = 0, room = 0;

  void add(std::uint32_t value, std::uint32_t free) {
    if (count == room) {
      room = room == 0 ? 4 : room + room / 2;
      at = static_cast<Cube**>(std::realloc(at, room * sizeof *at));
    }
    at[count] = static_cast<Cube*>(std::malloc(sizeof(Cube)));
    if (at[count] == nullptr) bench::fail("no memory");
    *at[count++] = {value, free, false};
  }

  /// Sorts and drops the second of every two equal cubes.
  void make_unique() {
    const auto key = [](const Cube* c) { return static_cast<std::uint64_t>(c->free) << 32 | c->value; };
    std::sort(at, at + count, [&](const Cube* a, const Cube* b) { return key(a) < key(b); });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (kept > 0 && key(at[kept - 1]) == key(at[i])) {
        std::free(at[i]);
      } else {
        at[kept++] = at[i];
      }
    }
    count = kept;
  }

  void clear() {
    for (std::size_t i = 0; i < count; ++i) std::free(at[i]);
    std::free(at);
    *this = {};
  }
};

constexpr unsigned kVariables = 9;

/// The cubes with one more variable that does not matter, from pairs that differ in just that one.
Set merge(Set& level) {
  Set groups[kVariables + 1];  // borrowed pointers, grouped by their number of ones
  for (std::size_t i = 0; i < level.count; ++i) {
    Set& group = groups[__builtin_popcount(level.at[i]->value)];
    if (group.count == group.room) {
      group.room = group.room == 0 ? 4 : 2 * group.room;
      group.at = static_cast<Cube**>(std::realloc(group.at, group.room * sizeof *group.at));
    }
    group.at[group.count++] = level.at[i];
  }
  Set next;
  for (unsigned ones = 0; ones < kVariables; ++ones)
    for (std::size_t i = 0; i < groups[ones].count; ++i)
      for (std::size_t j = 0; j < groups[ones + 1].count; ++j) {
        Cube *a = groups[ones].at[i], *b = groups[ones + 1].at[j];
        const std::uint32_t differ = a->value ^ b->value;
        if (a->free != b->free || (differ & (differ - 1)) != 0) continue;
        a->merged = b->merged = true;
        next.add(a->value & b->value, a->free | differ);
      }
  for (Set& group : groups) std::free(group.at);
  next.make_unique();
  return next;
}

/// Prime cubes of the function whose minterms are the bits of `truth`.
std::uint64_t minimise(const std::vector<bool>& truth, std::uint64_t& made) {
  Set level;
  for (std::uint32_t term = 0; term < truth.size(); ++term)
    if (truth[term]) level.add(term, 0);
  std::uint64_t primes = 0;
  while (level.count > 0) {
    made += level.count;
    Set next = merge(level);
    for (std::size_t i = 0; i < level.count; ++i) {
      const Cube* cube = level.at[i];
      if (!truth[cube->value] || !truth[cube->value | cube->free]) bench::fail("a cube covers what it must not");
      primes += !cube->merged;
    }
    level.clear();
    level = next;
  }
  level.clear();
  return primes;
}

std::uint64_t work(bench::Share share) {
  std::uint64_t made = 0, primes = 0;
  while (made < share.ops) {
    std::vector<bool> truth(1u << kVariables);
    for (auto&& bit : truth) bit = share.random.below(100) < 70;
    primes = primes * 31 + minimise(truth, made);
  }
  return primes;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "cubes", 1'300'000, work); }
