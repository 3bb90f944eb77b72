// parents.cpp: who calls, who is the parent for the kernel, and what the program is told.
//
//   a thread                        main's process           main's parent
//   a child that a thread forked    the thread's process     the program's id, which getpid() gave the thread
//
// Programs compare the two: a child that finds another parent than it left takes it for dead, and ends.
#include "parents.hpp"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>

#include "kernel_thread.hpp"
#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constinit int parent_thread = 0, parent_program = 0;  // of a forked child

/// "number (name) state parent ...", and a name may hold anything. 0: the system does not tell.
int parent_of(int pid) noexcept {
  char path[32], text[256];
  format_path(path, "/proc/", pid, "/stat");
  const long fd = raw_syscall(SYS_open, as_long(path), O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return 0;
  const long got = raw_syscall(SYS_read, fd, as_long(text), sizeof text - 1);
  raw_syscall(SYS_close, fd);
  text[got > 0 ? got : 0] = '\0';
  const char* const name_end = std::strrchr(text, ')');
  return name_end && std::strlen(name_end) > 4 ? std::atoi(name_end + 4) : 0;
}

}  // namespace

void note_parent() noexcept {
  parent_thread = self->pid.load();
  parent_program = leader->pid.load();
}

int parent_process() noexcept {
  const int parent = static_cast<int>(raw_syscall(SYS_getppid));
  if (!self) return parent;
  if (is_thread()) {
    if (is_leader()) return parent == parent_thread ? parent_program : parent;
    const int program = leader->pid.load();
    const int found = parent == program ? parent_of(program) : 0;
    return found == 0 ? parent : found == parent_thread ? parent_program : found;
  }
  return parent == self->pid.load() ? leader->pid.load() : parent;  // a child that shares the table still
}

}  // namespace mortise::isolate
