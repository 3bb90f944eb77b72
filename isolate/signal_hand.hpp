// signal_hand.hpp: signals that the watchdog has taken and not passed on yet.
#pragma once

#include <bit>
#include <csignal>
#include <cstdint>
#include <utility>

#include "lock.hpp"
#include "queue_limit.hpp"
#include "signal_marks.hpp"
#include "signal_take.hpp"
#include "timers.hpp"
#include "watchdog.hpp"

namespace mortise::isolate {

/// These, and those that may not be taken before them where one thread would have both: the lower numbers of those that are queued come first.
constexpr std::uint64_t with_those_behind(std::uint64_t numbers) noexcept {
  const std::uint64_t queued = numbers & ~kOldKind, lowest = queued & -queued;
  return numbers | (queued ? ~(lowest - 1) : 0);
}

/// What has not been passed on yet, in the order it came. The watchdog's alone; others may ask whether it is empty.
class Hand {
 public:
  void drop() noexcept { count_ = 0; }

  /// Takes one more of `set`; with a full hand, unless that is to make room, one of the old kind, which is always passed on, or
  /// another number; a lower one, where as many are queued as may be.
  long take(std::uint64_t set, std::int64_t deadline, bool makes_room) noexcept {
    const std::uint64_t queued = numbers() & ~kOldKind;
    if (count_ >= (makes_room ? kMost - 64 : kQueueRoom)) set &= bit_of(kExpiry) | ~(is_queue_narrow() ? with_those_behind(queued) : queued);
    return take_one(set, deadline);
  }

  /// Takes one of each number of `set` that is lower than one in hand: it is to be passed on first.
  void take_lower(std::uint64_t set) noexcept {
    const std::uint64_t queued = numbers() & ~kOldKind;
    for (set &= (std::bit_floor(queued) - 1) & ~kOldKind & ~queued; queued && set && count_ < kMost - 64 && !failed(take_one(set, 0));)
      set &= ~numbers();
  }

  /// Takes those that what is in hand may not come behind, if it goes back; not all, where they are very many.
  void take_those_behind() noexcept {
    const std::uint64_t set = with_those_behind(numbers() & ~kOldKind);
    while (set && count_ < kMost - 64 && !failed(take_one(set, 0))) {}
  }

  bool is_empty() noexcept { return shared(count_).load() == 0; }

  std::uint64_t numbers() const noexcept {
    std::uint64_t all = 0;
    for (int i = 0; i < count_; ++i) all |= bit_of(signals_[i].si_signo);
    return all;
  }

  /// False: there is no place.
  bool put(const siginfo_t& info) noexcept {
    if (count_ == kMost) return false;
    signals_[count_++] = info;
    return true;
  }

  /// Lets go of those of a number that `pass` passes on, in their order. False: of one that it did not, and of those behind it.
  template <class Pass>
  bool pass(int number, Pass pass) noexcept {
    int left = 0;
    bool all = true;
    for (int i = 0; i < count_; ++i) {
      if (signals_[i].si_signo == number && all && (all = pass(signals_[i]))) {
        first_went_ |= i == 0;
        continue;
      }
      if (left != i) signals_[left] = signals_[i];
      ++left;
    }
    count_ = left;
    return all;
  }

  /// Whether the first was let go since that was asked last.
  bool has_first_gone() noexcept { return std::exchange(first_went_, false); }

 private:
  static constexpr int kMost = 2048;

  long take_one(std::uint64_t set, std::int64_t deadline) noexcept {
    siginfo_t& info = signals_[count_] = {};
    const long taken = take_signal(set, &info, deadline);
    if (taken == kExpiry && info.si_code == SI_TIMER) timer_has_expired(info);
    if (failed(taken) || taken == kExpiry || is_poke(info)) return taken;
    mark_as_passed_on(info);
    ++count_;
    return taken;
  }

  siginfo_t signals_[kMost]{};
  int count_ = 0;
  bool first_went_ = false;
};

}  // namespace mortise::isolate
