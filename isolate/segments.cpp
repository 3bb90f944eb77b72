// segments.cpp: the caller attaches first, at an address that no thread uses for anything else; then all others do, before it may remove
// the segment's number.
#include "segments.hpp"

#include <cerrno>
#include <cstdint>
#include <sys/shm.h>

#include "file_maps.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Segment {
  int id, flags;
  std::uintptr_t at;
  const Thread* by;
};

long attach(int id, std::uintptr_t at, int flags) noexcept { return raw_syscall(SYS_shmat, id, static_cast<long>(at), flags); }

void attach_here(void* argument) {
  const Segment s = *static_cast<const Segment*>(argument);
  if (s.by != self) attach(s.id, s.at, s.flags);
}

void detach_here(void* argument) {
  const Segment s = *static_cast<const Segment*>(argument);
  if (s.by != self) raw_syscall(SYS_shmdt, static_cast<long>(s.at));
}

/// A free place of its size; 0: there is no such segment, or it may not be looked at.
std::uintptr_t place_for(int id) noexcept {
  shmid_ds about{};
  return failed(raw_syscall(SYS_shmctl, id, IPC_STAT, as_long(&about))) ? 0 : take_file_place(about.shm_segsz);
}

}  // namespace

void* attach_segment(int id, const void* where, int flags) noexcept {
  const bool for_all = is_thread();
  const std::uintptr_t wanted = where || !for_all ? reinterpret_cast<std::uintptr_t>(where) : place_for(id);
  const long low = attach(id, wanted, flags);
  if (failed(low)) return errno = static_cast<int>(-low), reinterpret_cast<void*>(-1);
  Segment s{id, flags, static_cast<std::uintptr_t>(low), self};
  if (for_all) everywhere(&attach_here, &s);
  return reinterpret_cast<void*>(low);
}

int detach_segment(const void* at) noexcept {
  const long result = raw_syscall(SYS_shmdt, as_long(at));
  if (failed(result)) return errno = static_cast<int>(-result), -1;
  Segment s{0, 0, reinterpret_cast<std::uintptr_t>(at), self};
  if (is_thread()) everywhere(&detach_here, &s);
  return 0;
}

}  // namespace mortise::isolate
