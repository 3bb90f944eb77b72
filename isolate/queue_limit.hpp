// queue_limit.hpp: room to pass signals on while as many are queued as may be.
//
// What the watchdog has taken from main's queue leaves room for one, and who sends more to main uses that first: the signal could go nowhere.
// The kernel counts what is queued for all of the user's processes and compares it with the limit of the one that is sent a signal. So main
// may have some less queued than its threads until the queue is no longer full. Others are told EAGAIN that little earlier.
#pragma once

namespace mortise::isolate {

class Lock;

/// How many less. The kernel counts what is being refused as well, so the room is a little larger than what is passed on at a time.
inline constexpr int kQueueRoom = 8;

/// In the leader's process. The second gives the program its limit back, or leaves what it has set since; it must before exec.
void narrow_queue() noexcept;
void widen_queue() noexcept;

bool is_queue_narrow() noexcept;

Lock& queue_lock() noexcept;  // for tables.hpp

}  // namespace mortise::isolate
