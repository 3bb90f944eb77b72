// queues.cpp: notices of message queues. The kernel keeps one a queue, for a process, and takes it back when that process asks for it or
// closes a descriptor of the queue. So it is kept in main's.
#include "queues.hpp"

#include <cerrno>

#include "leader_call.hpp"
#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Call {
  mqd_t queue;
  bool has_event;
  sigevent event;
};

long make_call(void* argument) noexcept {
  const Call& c = *static_cast<const Call*>(argument);
  return raw_syscall(SYS_mq_notify, c.queue, c.has_event ? as_long(&c.event) : 0);
}

}  // namespace

int notify_of_queue(mqd_t queue, const sigevent* event) noexcept {
  // Notices that call a function are the thread's that asked for them: libc makes them itself.
  if (!event) raw_syscall(SYS_mq_notify, queue, 0);
  Call c{queue, event != nullptr, event ? *event : sigevent{}};
  const long result = in_leader(&make_call, c);
  return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
}

void end_notice_of_queue(mqd_t queue) noexcept {
  Call c{queue, false, {}};
  if (is_thread() && !is_leader()) in_leader(&make_call, c);
}

}  // namespace mortise::isolate
