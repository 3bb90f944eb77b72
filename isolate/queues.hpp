// queues.hpp: which process is told of messages in a POSIX message queue.
#pragma once

#include <csignal>
#include <mqueue.h>

namespace mortise::isolate {

/// mq_notify by a signal, or no longer: of main's process, whichever thread asks.
int notify_of_queue(mqd_t queue, const sigevent* event) noexcept;

/// Before a thread closes a descriptor of the queue, which ends the program's notice of it.
void end_notice_of_queue(mqd_t queue) noexcept;

}  // namespace mortise::isolate
