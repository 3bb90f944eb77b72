// The search behind explore(): what one execution has done so far, and what is still to be tried at each of its steps.
#pragma once

#include <csetjmp>
#include <deque>
#include <string>
#include <vector>

#include "explorer/explorer.hpp"
#include "explorer/fiber.hpp"

namespace mortise::model {

/// What decides whether two steps disturb each other, known before the step is taken.
struct Footprint {
  const History* history = nullptr;
  int core = -1;  // of a step in a restartable sequence
  bool writes = false;
  bool sequential = false;
  bool fence = false;
  bool barrier = false;
  bool restart = false;  // of all sequences
  /// Whether there are steps that its order with this one matters to, whatever word they are about.
  bool orders() const { return barrier || restart || sequential || core >= 0; }
};

/// What a thread was told of a step: enough to take it again.
struct Told {
  std::uintptr_t print;  // of the operation
  Value result, left;
  ThreadId thread;
  bool success, restart, expired, wrote;
};

struct Step {
  ThreadId thread;
  unsigned index;  // the thread's how-many-th step, from 1
  Footprint footprint;
  Effect effect;
  Clock before, cause;  // the steps that this one rests on, without and with those that it meets itself
  Operation op;
  Choice choice;
  unsigned choice_index = 0;
  bool restart = false;  // not the operation, but the abort of the sequence it stood in
};

/// A point of the current execution at which the search may come back.
struct Node {
  ThreadId thread = 0;
  unsigned choice = 0;
  std::array<unsigned, kThreadsMax> choices{};  // how many each thread has here; 0: blocked, frozen or asleep
  std::array<std::uint32_t, kThreadsMax>
      serial_min{};  // not 0: tried before; only messages from this serial on are new
  std::uint32_t serial_next = 0;
  std::uintptr_t print = 0;  // of the operation taken: it must be the same when repeated
  unsigned wanted = 0;       // bit set of threads to try
  unsigned done = 0;         // and of those tried
  unsigned held = 0;         // and of those whose core may not be switched to them here
  bool expired = false;      // nobody could go on: a wait loop goes round once more
};

const char* name_of(Kind kind);

class Search {
 public:
  Search(const Subject& subject, const Options& options, Report& report);
  /// Tries everything with `frozen` stopped after `frozen_steps` steps (kNobody: no thread is stopped).
  void run(ThreadId frozen, unsigned frozen_steps);
  /// Runs the one execution that `schedule` names. False if it cannot be read.
  bool replay(const std::string& schedule);
  unsigned longest_of(ThreadId thread) const { return longest_of_[thread]; }

  // Called from the fibers, through hooks.
  void perform(Operation& op);
  [[noreturn]] void abandon(const std::string& message);
  void fail(const std::string& message);
  void plain_access(const void* address, bool write, std::source_location where);
  void relax(std::source_location where);
  void construct(const void* address, unsigned bytes, Value value);
  void fence(Order order, std::source_location where);
  void pause(std::source_location where);
  void run_on_core(int core) { fibers_[running_].core = core; }
  const void* thread() const { return &fibers_[running_]; }
  int core() const { return fibers_[running_].core; }
  void section_begin(std::jmp_buf* restart);
  void section_end() { fibers_[running_].restart = nullptr; }
  void barrier(std::source_location where);
  void restart_sections(std::source_location where);
  unsigned limit_begin(const char* name, unsigned limit);
  void limit_end(const char* name, unsigned limit, unsigned before);

  /// The search whose fiber is running, or null in set-up and finish.
  static Search* active();
  static Search* current();

 private:
  static constexpr std::size_t kSavedEvery = 4;
  enum class Ended { completed, pruned, failed };
  struct Logical {
    Fiber fiber;
    Search* search = nullptr;
    ThreadId id = 0;
    Operation* pending = nullptr;     // what it stands before; null when it has ended
    std::jmp_buf* restart = nullptr;  // inside a restartable sequence
    bool interrupted = false;
    int core = -1;
    std::source_location last{};       // of its last operation
    const char* limit_name = nullptr;  // of the StepLimit it is in
    unsigned aborts = 0, section_steps = 0;
    unsigned steps = 0, counted = 0, limit = 0, expirations = 0;
  };

  Ended execute_once();
  void begin_execution();
  std::size_t repeat();
  void save(std::size_t depth);
  template <class Ask> bool answer(Ask&& ask) {
    if (!repeats_) answers_.push_back(ask());
    return answers_[answered_++];
  }
  bool next_execution();
  void enter(ThreadId thread);
  bool select(Node& node, Ended& ended);
  bool depth_given(Node& node);
  Node* node_at(std::size_t depth, Ended& ended);
  unsigned index_of(const Node& node, const Choice& choice);
  void inherit_sleep(Node& node, const Node& parent) const;
  Ended stuck();
  void take(Node& node);
  void check_repeats(Node& node);
  static std::uintptr_t print_of(const Operation& op) {
    return reinterpret_cast<std::uintptr_t>(op.address) * 16 + static_cast<std::uintptr_t>(op.kind);
  }
  Footprint footprint_of(ThreadId thread) const;
  bool ordered(const Footprint& a, const Footprint& b) const;
  void join_ordered(Clock& cause, ThreadId thread, const Footprint& footprint) const;
  void share_core();
  void switch_core(ThreadId thread);
  bool core_is_held(ThreadId thread) const;
  static bool is_in_section(const Logical& logical);
  unsigned unknown_to(const Step& late, const Clock& known) const;
  void find_races(const Step& late, std::size_t count);
  void find_races_of_sleepers();
  void want(std::size_t depth, const Step& late, std::size_t count);
  void note_site(Operation& op);
  std::string schedule() const;
  std::string describe_steps() const;

  const Subject& subject_;
  const Options& options_;
  Report& report_;
  Machine machine_;
  std::array<Logical, kThreadsMax> fibers_;
  std::vector<Node> nodes_;
  std::vector<Step> steps_;
  std::vector<unsigned> ordering_, barriers_;  // which of them may be ordered with another, and which are with all
  std::vector<Told> told_;                     // beside steps_
  std::vector<Choice> found_;
  struct Saved {
    Machine::State machine;
    std::size_t answers;
  };
  std::deque<Saved> saved_;    // before every kSavedEvery-th step
  std::vector<bool> answers_;  // what fibers were told between steps
  std::size_t answered_ = 0;
  bool repeats_ = false;  // steps of the last execution: the machine is not asked
  std::vector<std::source_location> sites_;           // beside report_.sites
  std::vector<std::pair<ThreadId, unsigned>> given_;  // a schedule to replay
  std::array<unsigned, kThreadsMax> longest_of_{};
  std::size_t fresh_from_ = 0;  // steps from here on were not taken in the last execution
  ThreadId running_ = kNobody;
  ThreadId frozen_ = kNobody;
  unsigned frozen_steps_ = 0;
  bool failed_ = false;
};

}  // namespace mortise::model
