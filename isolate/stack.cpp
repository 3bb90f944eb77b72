// stack.cpp: one stack a thread record, kept with the record and reused by the next thread that takes it.
#include "stack.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "lazy_files.hpp"
#include "maps.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "region.hpp"
#include "room.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kStackLeast = 64u << 10;
constinit bool are_executable = false;  // C's nested functions and Fortran's put code there

void give_stack(const Stack& s) noexcept {
  if (!s.low || s.from_program) return;
  const auto low = reinterpret_cast<std::uintptr_t>(s.low);
  if (are_executable) unprotect(low, s.bytes);
  give_pages(low, s.bytes);
}

/// 0 or an error number.
int take_stack(Stack& s, std::size_t bytes) noexcept {
  const std::uintptr_t low = take_pages(bytes);
  s = {reinterpret_cast<std::byte*>(low), bytes, 0, false};
  if (!low) return EAGAIN;
  const long refused = are_executable ? protect(low, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) : 0;
  if (!failed(refused)) return 0;
  give_stack(s);  // the next thread would run on it as it is
  s = {};
  return static_cast<int>(-refused);
}

}  // namespace

void look_at_own_stack() noexcept {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  Maps maps;
  for (Mapping m; maps.next(m);)
    if (m.low <= here && here < m.high) are_executable = m.execute;
}

int make_stack(Thread& t, const pthread_attr_t* attributes) noexcept {
  void* low = nullptr;
  std::size_t bytes = 0, guard = kPage;
  pthread_attr_getguardsize(attributes, &guard);
  // glibc computes the low end from a top that is null when the program set none.
  const bool given = pthread_attr_getstack(attributes, &low, &bytes) == 0 && reinterpret_cast<std::uintptr_t>(low) + bytes != 0;
  if (given) {
    give_stack(t.stack);
    const auto at = reinterpret_cast<std::uintptr_t>(low);
    if (has_lazy_files()) promote_all(at, at + bytes, PROT_READ | PROT_WRITE);  // no handler of faults could run on it
    t.stack = {static_cast<std::byte*>(low), bytes, 0, true};
    return 0;
  }
  pthread_attr_getstacksize(attributes, &bytes);  // the default where they say none
  bytes = bytes < kStackLeast ? kStackLeast : bytes & ~63ul;  // as glibc aligns it
  if (page_ceil(guard) < guard || bytes + page_ceil(guard) < bytes) return EINVAL;
  bytes = page_ceil(bytes) + page_ceil(guard);
  const bool reusable = t.stack.low && !t.stack.from_program && t.stack.bytes == bytes;
  if (!reusable) {
    if (is_too_much(bytes)) return EAGAIN;
    give_stack(t.stack);
    if (const int error = take_stack(t.stack, bytes)) return error;
  }
  t.stack.guard_bytes = page_ceil(guard);
  return 0;
}

void drop_deep_stack(const Thread& t) noexcept {
  constexpr std::size_t kKept = 64u << 10;  // far below here
  const auto here = page_floor(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  const auto low = reinterpret_cast<std::uintptr_t>(t.stack.low) + t.stack.guard_bytes;
  if (t.stack.from_program || here < low || here >= reinterpret_cast<std::uintptr_t>(stack_top(t))) return;
  unsigned char is_used = 0;
  for (std::size_t depth = kKept; depth < here - low && !(is_used & 1); depth *= 4)  // a few looks, for most threads use little
    raw_syscall(SYS_mincore, static_cast<long>(here - depth), kPage, as_long(&is_used));
  if (is_used & 1) punch(low, here - kKept + kPage - low);
}

void guard_stack(const Thread& t) noexcept {
  const auto protect = [](const Stack& s, long protection) {
    if (s.guard_bytes) raw_syscall(SYS_mprotect, as_long(s.low), static_cast<long>(s.guard_bytes), protection);
  };
  protect(t.creators, PROT_READ | PROT_WRITE);
  protect(t.stack, PROT_NONE);
}

}  // namespace mortise::isolate
