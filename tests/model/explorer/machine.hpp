// The memory that scenarios run on: weaker than any processor we ship for, as weak as C++ allows short of reading
// values that were not written yet.
//
//   location x:   [0] ──── [3] ──── [7]          its messages in modification order, each with
//                           │                      value, stamp, what a reader that acquires it learns (`released`)
//   thread t:     current: x@3 y@0 ...            the oldest message of each location that t may still read
//                 acquired, released              what an acquire fence adds to current; what a release fence put by
//
// 1. A load takes any message not older than the thread's view of that location; then the view is at that message.
// 2. A store takes any place in the order behind the thread's view, not only the end (so 2+2W is seen), never between a
//    read-modify-write and the message it read.
// 3. A read-modify-write reads any such message that no other one has read and stands directly behind it.
// 4. Acquire joins what the message released; release puts the thread's knowledge into the message; a read-modify-write
//    passes on what it read (release sequences). Fences as in C++20.
// 5. Sequentially consistent accesses and fences take place in one order, the order of execution: a load sees at least
// the
//    last sequentially consistent store, and a fence exchanges views with the fences before it.
//
// Source: [KangEtAl17] promising semantics without promises, [LahavEtAl17] RC11 (load buffering is excluded as there).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <source_location>
#include <tuple>
#include <vector>

namespace mortise::model {

using ThreadId = unsigned;
using Order = std::memory_order;
using Stamp = std::uint64_t;

inline constexpr ThreadId kThreadsMax = 4;
inline constexpr ThreadId kNobody = kThreadsMax;
inline constexpr unsigned kCellsMax = 96;

struct Value {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Value&) const = default;
};

/// For each thread, how many of its steps are known.
struct Clock {
  std::array<std::uint32_t, kThreadsMax> at{};
  void join(const Clock& other) {
    for (unsigned i = 0; i < at.size(); ++i) at[i] = at[i] < other.at[i] ? other.at[i] : at[i];
  }
};

/// For each cell, the stamp of the oldest message that may still be read.
struct View {
  unsigned count = 0;
  std::array<Stamp, kCellsMax> at;
  View() {}
  View(const View& other) { *this = other; }
  View& operator=(const View& other);
  Stamp of(unsigned cell) const { return cell < count ? at[cell] : 0; }
  void raise(unsigned cell, Stamp stamp);
  void join(const View& other);
};

/// What a thread knows, or what a message tells: views decide what may be read, the clock decides what is a race.
struct Knowledge {
  View view;
  Clock clock;
  void join(const Knowledge& other) {
    view.join(other.view);
    clock.join(other.clock);
  }
};

struct Message {
  Value value;
  Stamp stamp = 0;
  Knowledge released;
  Clock cause;               // the steps without which this message would not be: what the reduction needs
  std::uint32_t serial = 0;  // counts all messages of an execution in order of creation
  ThreadId writer = kNobody;
  std::uint32_t followed = 0;  // the serial of the read-modify-write that read it: nothing may be put directly behind it any more
  bool poison = false;    // the word before its constructor ran
};

/// The messages of one Atomic or AtomicPair in modification order.
struct History {
  const void* address = nullptr;
  unsigned bytes = 0;
  unsigned cell = 0;  // a pair owns this cell and the next: its halves may be read at two different messages
  std::vector<Message*> messages;
  bool pair() const { return bytes == 16; }
};

enum class Kind : std::uint8_t {
  load,
  load_low,
  load_high,
  store,
  exchange,
  add,
  sub,
  bit_or,
  bit_and,
  compare_exchange,
  fence,
  await,
  barrier,
  restart,
  pause,
};

/// What a thread asks for, and what it gets.
struct Operation {
  Kind kind = Kind::load;
  Order order = Order::relaxed;
  Order failure = Order::relaxed;
  bool weak = false;
  const void* address = nullptr;
  unsigned bytes = 0;
  Value operand{};
  Value expected{};
  std::source_location where{};
  // Filled in by the machine:
  Value result{};
  bool success = false;
};

struct Choice {
  Message* message = nullptr;  // what to read; for a store, what to stand behind
  History* history = nullptr;
  bool spurious = false;  // a weak compare-exchange that fails although it need not
};

/// What a step did, as far as the reduction and the trace care.
struct Effect {
  const History* history = nullptr;
  const Message* read = nullptr;
  const Message* written = nullptr;
  bool reads = false;
  bool writes = false;
  bool sequential = false;
  bool old = false;      // it read a message behind which there was another
  bool fence = false;    // a sequentially consistent fence
  bool barrier = false;  // a membarrier: ordered against every step of every thread
  Value left{};          // what the word holds after a write
  std::vector<const History*> awaited;
};

class Machine {
  using Seen = std::vector<std::pair<History*, Stamp>>;
  struct Thread {
    Knowledge current, acquired, released;
    Clock cause;
    std::vector<History*> touched;      // read since the last cpu_relax
    Seen awaited;                       // what the await in progress waits on
    Seen previous;                      // what the last iteration of a wait loop saw
    History* forced_history = nullptr;  // an await has chosen what the next read of this word sees
    Message* forced = nullptr;
    unsigned spurious = 0;  // weak failures so far
    bool compared = false;  // the iteration holds a read-modify-write or an attempt at one
  };
  struct Plain {
    const void* address;
    ThreadId writer = kNobody;
    std::uint32_t written = 0;
    Clock read{};
    std::source_location written_where{};
    std::array<std::source_location, kThreadsMax> read_where{};
  };

 public:
  /// Empties the memory; every thread knows only what set-up left in the words themselves.
  void reset(unsigned spurious_failures);

  /// The messages of the word at `address`; the first touch takes what set-up left there for the first message.
  History& history_of(const void* address, unsigned bytes);

  /// All ways in which `thread` can do `op` now, newest message first; only those that read a message with a serial of
  /// at least `serial_min`, if that is not 0. Empty: the thread has to wait.
  void choices(ThreadId thread, const Operation& op, std::uint32_t serial_min, std::vector<Choice>& out);
  Effect execute(ThreadId thread, Operation& op, const Choice& choice);
  /// One more than the serial of the newest message.
  std::uint32_t serial_next() const { return serial_next_; }
  const Clock& cause(ThreadId thread) const { return threads_[thread].cause; }
  Clock& cause(ThreadId thread) { return threads_[thread].cause; }

  /// A fence that is not sequentially consistent changes only what its thread knows: no step of its own.
  void local_fence(ThreadId thread, Order order);
  /// A constructor put `value` there. False if the word was known before, so that it has to be a store like any other.
  bool construct(ThreadId thread, const void* address, unsigned bytes, Value value);
  /// A plain read or write. Returns null, or the place of an access by another thread with which it races.
  const std::source_location* plain_access(ThreadId thread, const void* address, bool write,
                                           std::source_location where);
  /// Ends one iteration of a wait loop. True if the thread has to wait until a word that it looked at changes.
  bool idle(ThreadId thread);
  /// What ran on a core is known to what runs there next.
  void publish_core(ThreadId from, unsigned core);
  void learn_core(ThreadId to, unsigned core);

  /// All that steps change but the messages, which restore() takes back.
  using State = std::tuple<std::array<Thread, kThreadsMax>, std::array<Knowledge, kThreadsMax>, std::vector<Plain>, View, View,
                           std::uint32_t, unsigned, std::size_t, std::size_t>;
  void save(State& to);
  /// Back to an earlier point of the same execution.
  void restore(const State& from);

 private:
  void find_messages(const Thread& self, const Operation& op, History& history, const Message* forced, std::vector<Choice>& out) const;
  auto parts() {
    return std::tie(threads_, cores_, plain_, sc_written_, sc_read_, serial_next_, cells_, histories_used_, messages_used_);
  }
  Message& new_message(ThreadId thread, Value value);
  void append(History& history, Message& message, const Message* behind);
  void read(Thread& self, History& history, const Message& message, Order order, Kind kind);
  Effect execute_write(ThreadId thread, Operation& op, const Choice& choice, bool updates);
  void execute_fence(Thread& self);
  void execute_barrier(ThreadId thread);
  void execute_restart(Thread& self);
  Stamp floor(const Thread& self, const History& history, Kind kind, Order order, bool writes) const;
  static Value updated(const Operation& op, Value before);

  std::array<Thread, kThreadsMax> threads_;
  std::array<Knowledge, kThreadsMax> cores_;
  std::vector<std::unique_ptr<History>> histories_;
  std::size_t histories_used_ = 0;
  std::vector<std::unique_ptr<Message>> messages_;
  std::size_t messages_used_ = 0;
  std::vector<Plain> plain_;
  View sc_written_, sc_read_;
  std::uint32_t serial_next_ = 1;
  unsigned cells_ = 0;
  unsigned spurious_max_ = 0;
};

inline bool is_acquire(Order o) { return o == Order::acquire || o == Order::acq_rel || o == Order::seq_cst; }
inline bool is_release(Order o) { return o == Order::release || o == Order::acq_rel || o == Order::seq_cst; }

}  // namespace mortise::model
