// timed_calls.cpp: waiting for what is left of the time.
#include "timed_calls.hpp"

#include <cerrno>
#include <cstdint>

#include "actions.hpp"
#include "cancel.hpp"
#include "epoll_signals.hpp"
#include "masks.hpp"
#include "raw.hpp"
#include "signal_files.hpp"
#include "signal_pass.hpp"

namespace mortise::isolate {
namespace {

constexpr long kMaskBytes = 8;

int answer(long result) noexcept { return failed(result) ? (errno = static_cast<int>(-result), -1) : static_cast<int>(result); }

constexpr long kSecond = 1'000'000'000;

/// At most the end of time.
timespec sum(timespec a, const timespec& b) noexcept {
  if (__builtin_add_overflow(a.tv_sec, b.tv_sec, &a.tv_sec)) return {INT64_MAX, 0};
  a.tv_nsec += b.tv_nsec;
  if (a.tv_nsec >= kSecond && a.tv_sec < INT64_MAX) ++a.tv_sec, a.tv_nsec -= kSecond;
  if (a.tv_nsec < 0) --a.tv_sec, a.tv_nsec += kSecond;
  return a;
}

/// `wait` takes milliseconds; a negative number is for ever. Meanwhile `signals` come to the calling thread.
template <class Wait>
int wait_for(int milliseconds, std::uint64_t signals, Wait wait) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  if (milliseconds <= 0)
    return answer(while_they_come(signals, 1, [&] { return until_interrupted([&] { return wait(milliseconds); }); }));
  const std::int64_t end = now_ns() + milliseconds * kMillisecond;
  int left = milliseconds;
  const auto wait_for_rest = [&] {
    const long result = wait(left);
    if (result != -EINTR) return result;
    const std::int64_t ns = end - now_ns();
    left = ns > 0 ? static_cast<int>((ns + kMillisecond - 1) / kMillisecond) : 0;
    return result;
  };
  return answer(while_they_come(signals, 1, [&] { return until_interrupted(wait_for_rest); }));
}

/// The mask that the kernel puts in place for the time of a call. A handler that ends the call runs with it, and faults as others do.
class Meanwhile {
 public:
  explicit Meanwhile(const sigset_t* set) noexcept : mask_(set ? mask_of_program(*set) : 0), is_given_(set) {
    if (set) have_queue_whole();  // how many of them the call takes nobody knows
  }
  const std::uint64_t* mask() const noexcept { return is_given_ ? &mask_ : nullptr; }

 private:
  std::uint64_t mask_;
  bool is_given_;
};

/// select and pselect; what is left of the time is written there.
int select_for(int count, fd_set* in, fd_set* out, fd_set* other, timespec* left, const sigset_t* set) {
  const Meanwhile blocked(set);
  const long with[2] = {as_long(blocked.mask()), kMaskBytes};
  return answer(while_they_come(told_by(in, count), 1, [&] {
    return until_interrupted([&] {
      return cancellable_call(SYS_pselect6, count, as_long(in), as_long(out), as_long(other), as_long(left), as_long(with));
    });
  }));
}

}  // namespace

int poll_descriptors(pollfd* descriptors, nfds_t count, int milliseconds) {
  const auto poll = [&](int left) { return cancellable_call(SYS_poll, as_long(descriptors), static_cast<long>(count), left); };
  return wait_for(milliseconds, told_by(descriptors, count), poll);
}

int poll_descriptors_masked(pollfd* descriptors, nfds_t count, const timespec* time, const sigset_t* set) {
  const Meanwhile blocked(set);
  timespec left = time ? *time : timespec{};  // the kernel writes there what is left
  const long limit = time ? as_long(&left) : 0;
  return answer(while_they_come(told_by(descriptors, count), 1, [&] {
    return until_interrupted([&] {
      return cancellable_call(SYS_ppoll, as_long(descriptors), static_cast<long>(count), limit, as_long(blocked.mask()), kMaskBytes);
    });
  }));
}

int select_descriptors(int count, fd_set* in, fd_set* out, fd_set* other, timeval* time) {
  if (time && (time->tv_sec < 0 || time->tv_usec < 0)) return answer(-EINVAL);
  timespec left{};
  if (time) left = {time->tv_sec + time->tv_usec / 1'000'000, time->tv_usec % 1'000'000 * 1000};
  const int result = select_for(count, in, out, other, time ? &left : nullptr, nullptr);
  if (time) *time = {left.tv_sec, left.tv_nsec / 1000};
  return result;
}

int select_descriptors_masked(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* time, const sigset_t* set) {
  timespec left = time ? *time : timespec{};
  return select_for(count, in, out, other, time ? &left : nullptr, set);
}

int wait_with_mask(const sigset_t* set) {
  const Meanwhile blocked(set);
  return answer(until_interrupted([&] { return cancellable_call(SYS_rt_sigsuspend, as_long(blocked.mask()), kMaskBytes); }));
}

int wait_for_events(int fd, epoll_event* events, int most, int milliseconds) {
  if (int got; wait_with_signals(fd, events, most, milliseconds, nullptr, got)) return got;
  return wait_for(milliseconds, 0, [&](int left) { return cancellable_call(SYS_epoll_wait, fd, as_long(events), most, left); });
}

int wait_for_events_masked(int fd, epoll_event* events, int most, int milliseconds, const sigset_t* set) {
  const Meanwhile blocked(set);
  if (int got; wait_with_signals(fd, events, most, milliseconds, blocked.mask(), got)) return got;
  return wait_for(milliseconds, 0, [&](int left) {
    return cancellable_call(SYS_epoll_pwait, fd, as_long(events), most, left, as_long(blocked.mask()), kMaskBytes);
  });
}

int sleep_on_clock(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (clock == CLOCK_THREAD_CPUTIME_ID) return EINVAL;
  const timespec asked = *time;  // the rest may be written there
  const bool is_point = flags & TIMER_ABSTIME;
  const clockid_t counts = clock == CLOCK_REALTIME && !is_point ? CLOCK_MONOTONIC : clock;  // whoever sets the clock changes no time
  timespec now{};
  clock_gettime(counts, &now);
  const unsigned before = handlers_run();
  long result = cancellable_call(SYS_clock_nanosleep, clock, flags, as_long(&asked), as_long(rest));
  if (result != -EINTR || handlers_run() != before) return static_cast<int>(-result);
  const timespec end = is_point ? asked : sum(now, asked);  // what is left would be rounded up each time
  result = until_interrupted([&] { return cancellable_call(SYS_clock_nanosleep, counts, TIMER_ABSTIME, as_long(&end), 0); });
  if (result != -EINTR || is_point || !rest) return static_cast<int>(-result);
  clock_gettime(counts, &now);
  *rest = sum(end, {-now.tv_sec, -now.tv_nsec});
  if (rest->tv_sec < 0) *rest = {};
  return EINTR;
}

}  // namespace mortise::isolate
