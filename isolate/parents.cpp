// parents.cpp: who calls, who is the parent for the kernel, and what the program is told.
//
//   a thread                        main's process           main's parent
//   a child that a thread forked    the thread's process     the program's id, which getpid() gave the thread
//   a program that a thread started                 the same; it knows of threads by this library only
//
// Programs compare the two: a child that finds another parent than it left takes it for dead, and ends. Shells signal it.
#include "parents.hpp"

#include <atomic>
#include <cstring>

#include "proc.hpp"
#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constinit int parent_thread = 0, parent_program = 0;  // of a forked child
constinit std::atomic<int> plain_parent{0};           // known to be no thread

struct Status {
  int parent = 0;  // 0: the system does not tell
  bool is_thread = false;
};

/// "number (name) state parent ...", and a name may hold anything. Threads are told by their exit signal, the 38th word.
Status status_of(int pid) noexcept {
  char text[1024];
  if (!read_of_process(pid, "stat", text, sizeof text)) return {};
  const char* at = std::strrchr(text, ')');
  if (!at || std::strlen(at) <= 4) return {};
  const char* number = at + 4;
  const int parent = static_cast<int>(read_number(number, 10));
  for (int word = 2; at && word < 38; ++word) at = std::strchr(at + 1, ' ');
  return {parent, at && at[1] == '0'};
}

/// The program that the parent of a process without other threads is one of.
int program_of(int parent) noexcept {
  if (parent == plain_parent.load(std::memory_order_relaxed)) return parent;
  const Status status = status_of(parent);
  if (status.is_thread) return status.parent;
  plain_parent.store(parent, std::memory_order_relaxed);
  return parent;
}

}  // namespace

int kernel_parent_of(int pid) noexcept { return status_of(pid).parent; }

void note_parent() noexcept {
  parent_thread = self->pid.load();
  parent_program = leader->pid.load();
}

int program_process() noexcept {
  const int own = raw_getpid();
  // A child the program cloned by itself finds the record of its parent here: it is nobody's thread.
  return self && self->pid.load(std::memory_order_relaxed) == own ? leader->pid.load(std::memory_order_relaxed) : own;
}

int parent_process() noexcept {
  const int parent = static_cast<int>(raw_syscall(SYS_getppid));
  if (self && !is_thread()) return parent == self->pid.load() ? leader->pid.load() : parent;  // a child that shares the table still
  if (!self || is_leader()) return parent == parent_thread ? parent_program : program_of(parent);
  const int program = leader->pid.load();
  const int found = parent == program ? status_of(program).parent : 0;
  return found == 0 ? parent : found == parent_thread ? parent_program : program_of(found);
}

}  // namespace mortise::isolate
