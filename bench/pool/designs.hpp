// The pools under test, ours and others', behind two calls: Entry* acquire() (null = none), void release(Entry*).
#pragma once

#include <concurrentqueue/concurrentqueue.h>
#include <tbb/concurrent_queue.h>

#include <boost/lockfree/stack.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "mortise/pool.hpp"

namespace bench {

inline constexpr std::uint32_t kEntries = 4096;

/// 64 bytes of payload and its checksum.
struct Entry {
  std::uint64_t words[8] = {};
  std::uint64_t crc = 0;
  Entry* next = nullptr;  // for the designs that need one
};

/// What a design counted itself.
struct Counted {
  std::uint64_t contention = 0, steals = 0;
};

template <unsigned N, class Rule, class Head>
struct Array {
  mortise::array_of_pools<Entry, N, Rule, Head, mortise::pools::CountedByThread<>> pool{kEntries};
  void thread_begins() {}
  void thread_ends() {}
  Entry* acquire() { return pool.try_acquire(); }
  void release(Entry* e) { pool.release(e); }
  template <class Each>
  void each(Each&& f) {
    for (std::uint32_t i = 0; i < pool.capacity(); ++i) f(*pool.at(i));
  }
  Counted counted() { return {pool.contention().repeats, pool.contention().steals}; }
};

template <mortise::pool_front kFront>
struct Distributed {
  using Pool = mortise::distributed_pool<Entry, mortise::kept_constructed<Entry>>;
  Pool pool{{.maximum = kEntries, .prefill = kEntries, .front = kFront}};
  void thread_begins() {}
  void thread_ends() {}
  Entry* acquire() { return pool.acquire_raw(); }
  void release(Entry* e) { pool.release(e); }
  template <class Each>
  void each(Each&& f) {
    for (std::uint32_t i = 0; i < pool.maximum(); ++i) f(*pool.at(i));
  }
  Counted counted() { return {pool.statistics().contention, pool.statistics().steals}; }
};

/// Designs of others hand out entries of an array.
struct Others {
  std::vector<Entry> entries = std::vector<Entry>(kEntries);
  void thread_begins() {}
  void thread_ends() {}
  template <class Each>
  void each(Each&& f) {
    for (Entry& e : entries) f(e);
  }
  Counted counted() { return {}; }
};

struct Mutex : Others {
  std::mutex lock;
  Entry* top = nullptr;
  Mutex() {
    for (Entry& e : entries) release(&e);
  }
  Entry* acquire() {
    const std::lock_guard held(lock);
    Entry* const e = top;
    if (e) top = e->next;
    return e;
  }
  void release(Entry* e) {
    const std::lock_guard held(lock);
    e->next = top;
    top = e;
  }
};

struct BoostStack : Others {
  boost::lockfree::stack<Entry*> stack{kEntries};
  BoostStack() {
    for (Entry& e : entries) stack.push(&e);
  }
  Entry* acquire() {
    Entry* e = nullptr;
    return stack.pop(e) ? e : nullptr;
  }
  void release(Entry* e) { stack.push(e); }
};

struct Moodycamel : Others {
  moodycamel::ConcurrentQueue<Entry*> queue{kEntries * 8};
  struct Tokens {
    moodycamel::ProducerToken producer;
    moodycamel::ConsumerToken consumer;
  };
  static inline thread_local std::unique_ptr<Tokens> tokens;
  Moodycamel() {
    for (Entry& e : entries) queue.enqueue(&e);
  }
  void thread_begins() { tokens.reset(new Tokens{moodycamel::ProducerToken(queue), moodycamel::ConsumerToken(queue)}); }
  void thread_ends() { tokens.reset(); }
  Entry* acquire() {
    Entry* e = nullptr;
    return queue.try_dequeue(tokens->consumer, e) ? e : nullptr;
  }
  void release(Entry* e) { queue.enqueue(tokens->producer, e); }
};

struct TbbQueue : Others {
  tbb::concurrent_queue<Entry*> queue;
  TbbQueue() {
    for (Entry& e : entries) queue.push(&e);
  }
  Entry* acquire() {
    Entry* e = nullptr;
    return queue.try_pop(e) ? e : nullptr;
  }
  void release(Entry* e) { queue.push(e); }
};

/// malloc and free of whichever allocator is preloaded. There is no stock of entries: readers find what malloc left.
struct Malloc {
  void thread_begins() {}
  void thread_ends() {}
  Entry* acquire() { return static_cast<Entry*>(std::malloc(sizeof(Entry))); }
  void release(Entry* e) { std::free(e); }
  template <class Each>
  void each(Each&&) {}
  Counted counted() { return {}; }
};

}  // namespace bench
