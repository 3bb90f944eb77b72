// tls.cpp: the part of a thread that lives behind the fs register.
//
//      low                                                  high
//      ... TLS of each library | struct pthread (the TCB, opaque but for what glibc.hpp names) | rseq area ...
//                              ^ fs:0, pthread_self()
//
// glibc's own allocator of TLS blocks is used, so initial values, dtv and alignment are right by construction; its
// malloc lands in memory that all address spaces share.
#include "tls.hpp"

#include <cstring>
#include <utility>

#include "glibc.hpp"
#include "lock.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

// The start of the descriptor is x86-64 ABI between compiler and library: self pointers, and the guards at fixed
// places.
struct TcbHead {
  void* tcb;
  void* dtv;
  void* self;
  int multiple_threads;
  int gscope;
  void* sysinfo;
  std::uintptr_t stack_guard;    // fs:0x28, compiled into every function with a canary
  std::uintptr_t pointer_guard;  // fs:0x30
};
static_assert(offsetof(TcbHead, stack_guard) == 0x28 && offsetof(TcbHead, pointer_guard) == 0x30);

constexpr std::uint32_t kRseqSignature = 0x53053053;

constinit Lock lock;

std::byte* bytes_of(void* tcb) noexcept { return static_cast<std::byte*>(tcb); }

/// What unwinding from an alternate stack is measured by, and how much libc puts on a small one.
void note_stack(const Thread& t) noexcept {
  if (!glibc.stack) return;
  auto* const noted = reinterpret_cast<std::uintptr_t*>(bytes_of(t.tcb) + glibc.stack);
  noted[0] = reinterpret_cast<std::uintptr_t>(t.stack.low);
  noted[1] = t.stack.bytes;
}

}  // namespace

int& tid_field(void* tcb) noexcept { return *reinterpret_cast<int*>(bytes_of(tcb) + glibc.tid); }
std::atomic_ref<int> cancel_field(void* tcb) noexcept {
  return std::atomic_ref<int>(*reinterpret_cast<int*>(bytes_of(tcb) + glibc.cancel));
}
void* robust_head_of(void* tcb) noexcept { return bytes_of(tcb) + glibc.robust_head; }

void empty_robust_list(void* tcb) noexcept {
  // struct robust_list_head {first, futex_offset, pending}; glibc keeps a back pointer just before it.
  auto* head = static_cast<void**>(robust_head_of(tcb));
  head[-1] = head;
  head[0] = head;
  reinterpret_cast<long*>(head)[1] = -32;  // from a mutex's list link to its lock word
  head[2] = nullptr;
}

bool make_tls(Thread& t) noexcept {
  Held held(lock);
  // A child may be forked here, whose copy has no lock: rather a block too many than one given back twice.
  if (void* const before = std::exchange(t.tcb, nullptr)) glibc.deallocate_tls(before, true);
  t.tcb = glibc.allocate_tls(nullptr);
  if (!t.tcb) return false;
  const auto* mine = reinterpret_cast<const TcbHead*>(pthread_self());
  auto* head = static_cast<TcbHead*>(t.tcb);
  head->tcb = head->self = t.tcb;
  head->multiple_threads = 1;
  head->stack_guard = mine->stack_guard;
  head->pointer_guard = mine->pointer_guard;
  empty_robust_list(t.tcb);
  note_stack(t);
  // In no list of glibc's, but linked to itself: a forked child takes its own descriptor out of whatever list it is in.
  auto** link = reinterpret_cast<void**>(bytes_of(t.tcb) + glibc.list);
  link[0] = link[1] = link;
  return true;
}

void set_tls_of_threads(std::size_t below, const void* image, std::size_t image_bytes, std::size_t bytes) noexcept {
  Held held(lock);
  for (int i = 0; i < thread_records(); ++i) {
    const Thread& t = threads[i];
    if (&t == leader || !t.in_use.load() || !t.tcb) continue;
    std::byte* const to = bytes_of(t.tcb) - below;
    std::memcpy(to, image, image_bytes);
    std::memset(to + image_bytes, 0, bytes - image_bytes);
  }
}

void reset_tls_lock() noexcept { lock.reset(); }

void adopt_tls(Thread& t) noexcept {
  tid_field(t.tcb) = raw_gettid();
  raw_syscall(SYS_set_robust_list, as_long(robust_head_of(t.tcb)), 24);
  rseq_on();
  glibc.init_ctype();
}

static long rseq_call(int flags) noexcept {
  return raw_syscall(SYS_rseq, static_cast<long>(reinterpret_cast<std::uintptr_t>(pthread_self()) + glibc.rseq),
                     glibc.rseq_bytes, flags, kRseqSignature);
}

void rseq_off() noexcept {
  if (glibc.rseq_bytes) rseq_call(1 /* RSEQ_FLAG_UNREGISTER */);
}

void rseq_on() noexcept {
  if (glibc.rseq_bytes) rseq_call(0);
}

}  // namespace mortise::isolate
