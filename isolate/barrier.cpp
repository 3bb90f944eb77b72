// barrier.cpp: barriers.
//
//   32 bytes:  | arrived | completed | count | shared | left | ... |
//
// `arrived` and `completed` count threads since the barrier was made, modulo 2^32. A thread's ticket is its place in
// `arrived`; its round ends when `completed` reaches the next multiple of `count`. The thread that fills the round
// says so and is the serial one. `left` lets destroy wait until nobody reads the barrier any more.
#include "barrier.hpp"

#include "lock.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

struct BarrierBytes {
  std::uint32_t arrived;
  std::uint32_t completed;
  std::uint32_t count;
  std::uint32_t shared_between_processes;
  std::uint32_t left;
};
static_assert(sizeof(BarrierBytes) <= sizeof(pthread_barrier_t));

BarrierBytes& bytes_of(pthread_barrier_t* b) noexcept { return *reinterpret_cast<BarrierBytes*>(b); }
bool before(std::uint32_t a, std::uint32_t b) noexcept { return static_cast<std::int32_t>(a - b) < 0; }

void complete(BarrierBytes& b, std::uint32_t round_end) noexcept {
  std::uint32_t seen = shared(b.completed).load();
  while (before(seen, round_end) && !shared(b.completed).compare_exchange_weak(seen, round_end)) {
  }
  futex_wake(&b.completed, kEveryone);
}

}  // namespace

int wait_at_barrier(pthread_barrier_t* p) noexcept {
  BarrierBytes& b = bytes_of(p);
  const std::uint32_t count = b.count;
  const std::uint32_t base = shared(b.completed).load();  // some multiple of `count` not after my round
  const std::uint32_t ticket = shared(b.arrived).fetch_add(1) + 1;
  const std::uint32_t round_end = base + (ticket - base + count - 1) / count * count;
  const bool last = ticket == round_end;
  if (last) {
    complete(b, round_end);
  } else {
    for (std::uint32_t seen; before(seen = shared(b.completed).load(), round_end);) futex_wait(&b.completed, seen);
  }
  // A waiting destroyer reads `left` last: this is the final touch of the barrier.
  const std::uint32_t gone = shared(b.left).fetch_add(1) + 1;
  if (gone == round_end) futex_wake(&b.left, kEveryone);
  return last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

int destroy_barrier(pthread_barrier_t* p) noexcept {
  BarrierBytes& b = bytes_of(p);
  for (std::uint32_t left; (left = shared(b.left).load()) != shared(b.arrived).load();) futex_wait(&b.left, left);
  return 0;
}

}  // namespace mortise::isolate
