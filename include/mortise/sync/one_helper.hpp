// One thread in the background, at most: who starts it, how it ends and misses no work, how the next one takes its place.
//
//   who has work    the lock of the work: put it there ─► is_at_work? ─no─► claim ─► ask the system for a thread ─► (refused: refuse)
//   the thread      arrive ─► work ... ─► ends: leave, then look under that lock: nothing there? gone. Else take it up again, if nobody has
//                                └─► is_relieved: leave, pause; whoever has work meanwhile starts another one: gone. Else go on.
//
//              claim               arrive
//   kNobody ───────────► kIsStarted ──────► kRuns      Whoever leaves is still there: on its stack, until the kernel clears the word of
//      ▲ ◄───────────────────┘ refuse         │        its place. The next one finds the other; a third one waits to be asked for
//      └──────────────────────────────────────┘ leave  again. Between `arrive` and `leave` what helpers share is this thread's.
//
// A filter of system calls may end the thread at one, so that it does not leave: the state tells of one that runs, and none is in a place.
// Whoever has work claims from it then. A thread that runs has a number, which no other one has: who found one gone takes no other's place.
//
// Who wants none there keeps it away: no claim holds from then on, and the one at work, which looks after each sleep, leaves and ends. Both
// leave word of it, and who is the last to keep it away starts one again.
//
// One of the two sees the other: what takes the lock first is seen by who takes it next, be it the work or that the helper has left. So
// the lock orders them, and the words here need not. One that is started may be refused by the system yet: whoever wants to take up its
// work again waits for that.
//
// Progress: `take_back` waits for a thread that is being started; `claim`, `gives_way` and `come_again` are lock-free, all else wait-free.
#pragma once

#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {

class OneHelper {
 public:
  static constexpr unsigned kPlaces = 2, kNoPlace = kPlaces;

  /// Whether one is at work, or is being started: who has put work there need do nothing.
  bool is_at_work() const noexcept { return state_.load(Order::relaxed) != kNobody; }

  /// Whether one is there at all, be it one that leaves. Exact where no other thread starts one.
  MORTISE_HOT bool is_there() const noexcept {
    bool any = false;
    for (const auto& word : words_) any |= word.load(Order::acquire) != 0;
    return any;
  }

  // -- for who wants none there: after `keep_away` and until `come_again` none is, once `is_gone`

  void keep_away() noexcept { kept_away_.fetch_add(kOne, Order::seq_cst); }
  /// True when the caller is to start one: nobody keeps it away any more, and meanwhile one has gone, or would have been started.
  /// Nothing where a fork has come between: in the child nobody keeps it away.
  bool come_again() noexcept {
    std::uint32_t now = kept_away_.load(Order::relaxed), next;
    do {
      if (now < kOne) return false;
      next = now - kOne;
      if (next < kOne) next &= kForGood;
    } while (!kept_away_.compare_exchange_strong(now, next, Order::release));
    return next == 0 && (now & kIsWanted);
  }
  /// Whoever calls it keeps it away already.
  void keep_away_for_good() noexcept { kept_away_.fetch_or(kForGood, Order::relaxed); }
  bool is_kept_away_for_good() const noexcept { return kept_away_.load(Order::relaxed) & kForGood; }
  /// None is there, nor is one being started: who claims later sees that it is kept away, or is seen here.
  bool is_gone() const noexcept {
    const bool is_started = state_.load(Order::seq_cst) == kIsStarted;  // first: once it is in its place it may change the state
    return !is_there() && !is_started;
  }
  bool is_kept_away() const noexcept { return kept_away_.load(Order::seq_cst) != 0; }
  /// 0 while it may be there: it sleeps on this word.
  const Atomic<std::uint32_t>& away_word() const noexcept { return kept_away_; }

  // -- for who starts one

  /// True where it is kept away; who is the last to do so then starts one.
  bool gives_way() noexcept {
    std::uint32_t now = kept_away_.load(Order::relaxed);
    while (now >= kOne && !kept_away_.compare_exchange_strong(now, now | kIsWanted, Order::relaxed)) {}
    return now != 0;
  }
  /// True when the caller is to start it, or to refuse.
  bool claim() noexcept {
    do {
      std::uint32_t now = kNobody;
      if (!state_.compare_exchange_strong(now, kIsStarted, Order::seq_cst)) return false;
      if (!is_kept_away()) return true;
      refuse();  // before it leaves word: who gets that is to find nobody
    } while (!gives_way());
    return false;
  }
  /// The same where the system has ended the one at work: it is gone and has not left.
  bool claim_from_ended() noexcept {
    std::uint32_t now = state_.load(Order::acquire);  // pairs with `arrive`: the place it took before is seen taken
    return runs(now) && !is_there() && state_.compare_exchange_strong(now, kIsStarted, Order::relaxed);
  }
  /// There is none after all.
  void refuse() noexcept { state_.store(kNobody, Order::seq_cst); }
  /// Where nobody is; kNoPlace while two are leaving.
  unsigned free_place() const noexcept {
    unsigned i = 0;
    while (i < kPlaces && words_[i].load(Order::acquire)) ++i;
    return i;
  }
  /// Not 0 while a thread is in that place; the kernel's, who sets it before the thread's first step and clears it behind its last.
  Atomic<std::uint32_t>& word(unsigned place) noexcept { return words_[place]; }

  // -- for the thread

  void arrive() noexcept { state_.store(number_ = number_ + 2, Order::release); }

  /// True when the thread is to end: `is_done`, which takes the lock of the work, found nothing, or another thread does it.
  template <class IsDone, class Wait> bool ends(IsDone&& is_done, Wait&& wait) noexcept {
    const std::uint32_t mine = leave();
    return is_done() || !take_back(mine, wait);
  }
  /// True when another thread has taken over during `pause`.
  template <class Pause, class Wait> bool is_relieved(Pause&& pause, Wait&& wait) noexcept {
    const std::uint32_t mine = leave();
    pause();
    return !take_back(mine, wait);
  }

  /// True when the thread is to end, since it is kept away; after each sleep.
  template <class Wait> bool is_sent_away(Wait&& wait) noexcept {
    if (!is_kept_away()) return false;
    const std::uint32_t mine = leave();
    return gives_way() || !take_back(mine, wait);
  }

  /// In the child of a fork there is none.
  void reset_after_fork() noexcept {
    state_.store(kNobody, Order::relaxed);
    for (auto& word : words_) word.store(0, Order::relaxed);
    kept_away_.store(kept_away_.load(Order::relaxed) & kForGood, Order::relaxed);
  }

 private:
  static constexpr std::uint32_t kForGood = 1, kIsWanted = 2, kOne = 4;
  static constexpr std::uint32_t kNobody = 0, kIsStarted = 2;  // else it is the number of the one that runs, which is odd
  static bool runs(std::uint32_t state) noexcept { return state % 2 != 0; }

  std::uint32_t leave() noexcept {
    const std::uint32_t mine = state_.load(Order::relaxed);
    state_.store(kNobody, Order::seq_cst);
    return mine;
  }
  template <class Wait> bool take_back(std::uint32_t mine, Wait&& wait) noexcept {
    for (;; wait()) {
      std::uint32_t now = kNobody;
      if (state_.compare_exchange_strong(now, mine, Order::seq_cst)) return true;
      if (runs(now)) return false;
    }
  }

  Atomic<std::uint32_t> state_{kNobody};
  Shared<std::uint32_t> number_{1};  // of the last one that ran; whoever is at work may change it
  Atomic<std::uint32_t> words_[kPlaces] = {};
  Atomic<std::uint32_t> kept_away_{0};  // by how many, kOne each; kForGood, and while there is any, kIsWanted
};

}  // namespace mortise
