// Start and end without an operating system: what start.cpp and report.cpp are on Linux. No libc, no threads, no memory
// but the composition's own; the compiler may ask for memcpy, memset and memmove, which every toolchain or program has.
#include "abi/heap.hpp"

#define MORTISE_C__(name, verb) name##_##verb
#define MORTISE_C_(name, verb) MORTISE_C__(name, verb)
#define MORTISE_C(verb) MORTISE_C_(MORTISE_ALLOCATOR, verb)

/// What the program says to a fault: it must not return. Absent: the processor traps.
extern "C" [[gnu::weak, gnu::visibility("default")]] void MORTISE_C(on_fault)(const char* fault, void* p);

namespace mortise {

[[noreturn]] void report(Fault fault, Block block) noexcept {
  if (MORTISE_C(on_fault)) MORTISE_C(on_fault)(name_of(fault), block.ptr);
  for (;;) __builtin_trap();
}

void tell(const Crime& crime) noexcept {
  if (MORTISE_C(on_fault)) MORTISE_C(on_fault)(name_of(crime.fault), crime.block.ptr);
}
bool goes_on_after(const Crime& crime) noexcept { report(crime.fault, crime.block); }

namespace abi {

constinit Heap::Thread nobody{};

namespace {
enum : int { kClosed, kStarting, kOpen, kFailed };
constinit Atomic<int> state{kClosed};
}  // namespace

/// The first core that asks starts the heap; others that come meanwhile wait for it.
bool prepare_thread() noexcept {
  int seen = state.load(Order::acquire);
  if (seen == kOpen) [[likely]] return true;
  int closed = kClosed;
  if (state.compare_exchange_strong(closed, kStarting, Order::acq_rel)) {
    state.store(start_below(heap, os::Facts{}) ? kOpen : kFailed, Order::release);
  }
  while ((seen = state.load(Order::acquire)) == kStarting) cpu_relax();
  return seen == kOpen;
}

void leave_if_ended() noexcept {}
void note_release() noexcept {}

}  // namespace abi
}  // namespace mortise
