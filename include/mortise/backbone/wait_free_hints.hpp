// How the threads of wfslab tell each other of spans: a bin of the buckets in which something was put home, which its owner goes through
// step by step, and a hint that is on its way to another's bin.
//
//   others   ─ announce(bucket) ─► │ bin │ ─ marks ─► ─ a word ─► ─ a bucket ─►  the owner looks at the bucket's spans
//
// What a step touches the one before it has asked for.
// Progress: wait-free, O(1) each. Placement: in WaitFreeSlot.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/sync/wait_free_bin.hpp"

namespace mortise {

template <unsigned kBuckets> class WaitFreeHints {
 public:
  static constexpr unsigned kNone = kBuckets;

  // -- anybody's
  void announce(unsigned bucket) noexcept { bin_.announce(bucket); }
  void ask_for(unsigned bucket) const noexcept { bin_.ask_for(bucket); }

  // -- the owner's
  bool has_more() const noexcept { return bucket_ != kNone || word_ || marks_ || bin_.is_marked(); }
  bool has_buckets_left() const noexcept { return word_; }  ///< taken together, and not come to yet
  /// The bucket that is to be looked into, or kNone: not yet.
  unsigned bucket() const noexcept { return bucket_; }
  unsigned take_bucket() noexcept {
    const unsigned b = bucket_;
    bucket_ = kNone;
    return b;
  }
  /// A bucket that was hinted at; or nothing yet, and one step nearer to it. Only when there is no bucket.
  void go_on() noexcept {
    if (word_) {
      bucket_ = at_ * 64 + static_cast<unsigned>(std::countr_zero(word_));
      word_ &= word_ - 1;
    }
    if (word_) return;
    if (marks_) {
      at_ = static_cast<unsigned>(std::countr_zero(marks_));
      marks_ &= marks_ - 1;
      word_ = bin_.take(at_, kBuckets);  // nothing, if the mark was late
    } else if (bin_.is_marked()) {
      marks_ = bin_.take_marks();
    }
    bin_.ask_for(marks_ ? static_cast<unsigned>(std::countr_zero(marks_)) * 64 : 0);
  }

 private:
  WaitFreeBin<kBuckets / 64> bin_;
  alignas(64) std::uint64_t marks_ = 0, word_ = 0;
  unsigned at_ = 0, bucket_ = kNone;
};

/// A hint that is told when the lines that it will touch have come: its holder's.
template <class Hints> class WaitFreeTidings {
 public:
  explicit operator bool() const noexcept { return whom_; }
  /// One that waits already is told first.
  void tell_later(Hints& whom, unsigned bucket) noexcept {
    tell();
    whom_ = &whom;
    bucket_ = bucket;
    whom.ask_for(bucket);
  }
  void tell() noexcept {
    if (whom_) whom_->announce(bucket_);
    whom_ = nullptr;
  }

 private:
  Hints* whom_ = nullptr;
  unsigned bucket_ = 0;
};

}  // namespace mortise
