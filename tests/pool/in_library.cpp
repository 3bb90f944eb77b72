// A part of a program that has pools of its own by the headers, as each of several shared libraries of one program may: LIBRARY is which.
#include "mortise/pool.hpp"

namespace {

mortise::array_of_pools<int, 8, mortise::by_thread_in_turn> pools(80);

}  // namespace

/// Whether one thread is served by one pool, as its rule says.
extern "C" bool LIBRARY() {
  int* const first = pools.try_acquire();
  int* const second = pools.try_acquire();
  const bool same = pools.index_of(first) % 8 == pools.index_of(second) % 8;
  pools.release(first);
  pools.release(second);
  return same;
}
