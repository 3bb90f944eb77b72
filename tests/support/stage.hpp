// What a heap needs to be driven by a test: facts of a machine, and logical threads on one thread of the system.
//
// A layer gets a thread as an argument, never from thread-local storage, so one thread can play many: each logical thread has a
// record of its own and, for caches that belong to cores, an index of its own, put into place before each of its operations.
#pragma once

#include <memory>
#include <vector>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"

namespace mortise::test {

inline thread_local os::OwnArea own_area{};

/// Facts as on a machine without restartable sequences: every thread has a core index of its own, and runs are repeatable.
inline os::Facts own_facts() noexcept {
  os::Facts facts;
  facts.cpus = 2;
  facts.second_cache_bytes = 8_MiB;
  facts.rseq.offset = reinterpret_cast<std::byte*>(&own_area) - static_cast<std::byte*>(__builtin_thread_pointer());
  facts.rseq.index_at = facts.rseq.offset;
  return facts;
}

/// A heap on its own, started, with logical threads. All of it is gone at the end of a test.
template <class H> class Stage {
 public:
  explicit Stage(unsigned threads = 1, bool starts = true) : heap_(std::make_unique<H>()) {
    own_area.index = 0;
    if (starts) start();
    for (unsigned i = 0; i < threads; ++i) threads_.push_back(std::make_unique<Logical>());
    if (starts)
      for (unsigned i = 0; i < threads; ++i) attach(i);
  }
  ~Stage() { own_area.index = 0; }

  bool start() noexcept { return start_below(*heap_, own_facts()); }
  H& heap() noexcept { return *heap_; }
  unsigned thread_count() const noexcept { return static_cast<unsigned>(threads_.size()); }

  /// Runs `work(heap, thread)` as logical thread `i`.
  template <class Work> auto as(unsigned i, Work&& work) {
    struct Turn {
      Logical& logical;
      explicit Turn(Logical& l) : logical(l) { own_area.index = l.index; }
      ~Turn() { logical.index = own_area.index; }
    } turn(*threads_[i]);
    return work(*heap_, threads_[i]->record);
  }
  void attach(unsigned i) {
    as(i, [](H& h, auto& t) { attach_below(h, t); });
  }
  void detach(unsigned i) {
    as(i, [](H& h, auto& t) { detach_below(h, t); });
    std::destroy_at(&threads_[i]->record);
    std::construct_at(&threads_[i]->record);
    threads_[i]->index = 0;  // the next one is another thread
  }

 private:
  struct Logical {
    typename H::Thread record{};
    std::uint64_t index = 0;
  };
  std::unique_ptr<H> heap_;
  std::vector<std::unique_ptr<Logical>> threads_;
};

}  // namespace mortise::test
