// mortise-arena COUNTED.so ... [--calls N] [--seed S] [--same]: the most instructions of any malloc and of any free, library by library, each over a
// static arena of another size. Calls are made up to be bad for a heap of chunks: arenas filled to the brim, every other block freed, frees
// that merge on both sides, requests that just do not fit, sizes at the edges of the lists.
//
// If a maximum differed between arenas, or exceeded its bound, the time of a call would depend on the size of the heap or on its history.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <sys/wait.h>

#include "counted.hpp"

namespace mortise::count {
namespace {

struct Options {
  std::uint64_t calls = std::getenv("MORTISE_TEST_ALL") ? 10'000'000 : 300'000, seed = 1;
  std::uint64_t malloc_max = 0, free_max = 0;  // 0: only compare
  bool same = false;  // the maxima of all libraries must be the same, to the instruction
};
struct Most {
  std::uint64_t malloc = 0, free = 0, mallocs = 0, refused = 0, frees = 0;
};

class Adversary {
 public:
  Adversary(const Library& library, const Options& options, const Counters& counters)
      : allocator_(library), options_(options), counters_(counters), random_(options.seed) {}

  Most run() {
    measure_arena();
    free_in_every_way();
    empty_in_the_worst_way();
    while (most_.mallocs + most_.frees < options_.calls) {
      switch (random_.below(6)) {
        case 0: fill(); break;
        case 1: free_every_other(); break;
        case 2: churn(); break;
        case 3: probe(); break;
        case 4: merge_three(); break;
        default: drain(); break;
      }
    }
    return most_;
  }

 private:
  static constexpr std::size_t kHeldMax = 60'000;

  void* take(std::size_t size) {
    void* const p = allocator_.malloc(size, counters_, most_.malloc);
    ++most_.mallocs;
    if (p) held_.push_back(p);
    else ++most_.refused;
    return p;
  }
  void give(std::size_t i) {
    allocator_.free(held_[i], counters_, most_.free);
    ++most_.frees;
    held_[i] = held_.back();
    held_.pop_back();
  }
  /// The largest block, by halving: what the arena has for one request.
  void measure_arena() {
    for (room_ = std::size_t{1} << 31; room_ && !take(room_); room_ /= 2) {
    }
    drain();
  }
  /// Any size from 1 to half of the arena, each power of two about as likely, half of them right at or beside one.
  std::size_t size() {
    const unsigned bits = 64 - static_cast<unsigned>(__builtin_clzll(room_));
    const std::size_t power = std::size_t{1} << random_.below(bits);
    return random_.below(2) ? power + random_.below(power) : power - 8 + 16 * random_.below(3) / 2 - random_.below(2);
  }
  /// Until nothing fits: with pieces small enough, but no more pieces than the adversary can hold.
  void fill() {
    for (std::size_t piece = std::max<std::size_t>(room_ / (1 + random_.below(2000)), 1); piece; piece = piece > 16 ? piece / 4 : 0)
      while (held_.size() < kHeldMax && take(piece)) {
      }
  }
  void free_every_other() {
    std::sort(held_.begin(), held_.end());
    const std::size_t start = random_.below(2);
    std::vector<void*> kept;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (i % 2 == start) kept.push_back(held_[i]);
      else allocator_.free(held_[i], counters_, most_.free), ++most_.frees;
    }
    held_ = kept;
  }
  void churn() {
    for (unsigned n = 0; n < 2000; ++n) {
      if (held_.size() < kHeldMax && random_.below(2)) take(size());
      else if (!held_.empty()) give(random_.below(held_.size()));
    }
  }
  /// What does not fit: the search must say so as fast as it finds.
  void probe() {
    for (unsigned n = 0; n < 200; ++n) {
      const std::size_t before = held_.size();
      take(room_ + random_.below(room_));
      if (held_.size() > before) give(held_.size() - 1);
    }
  }
  /// A block between two free ones, with another kind of rest on each side.
  void merge_three() {
    for (unsigned n = 0; n < 200; ++n) {
      const std::size_t before = held_.size();
      const std::size_t one = 1 + random_.below(4000);
      for (unsigned i = 0; i < 4; ++i)
        if (!take(one + 16 * i)) break;
      for (const unsigned which : {2u, 0u, 1u, 3u})
        if (held_.size() == before + 4 || which != 2) {
          if (held_.size() <= before) break;
          give(std::min(before + which, held_.size() - 1));
        }
      while (held_.size() > before) give(held_.size() - 1);
    }
  }
  /// How a free chunk lies in its list: not there at all, alone in its level, alone in its list, or first, between others, last.
  enum Lies : unsigned { nowhere, alone, alone_in_list, first, between, last };

  /// Frees of every kind: each neighbour free or not, small or large, lying in each of the ways, and what all become going into a list that
  /// is empty or not. So a maximum is met in every arena, and not by chance.
  void free_in_every_way() {
    drain();
    for (unsigned sizes = 0; sizes < 8; ++sizes)
      for (unsigned left = nowhere; left <= last; ++left)
        for (unsigned right = nowhere; right <= last; ++right)
          for (const bool is_joined : {false, true})
            free_between({sizes & 1 ? 10'008u : 56u, Lies{left}}, sizes & 2 ? 99'992 : 120, {sizes & 4 ? 39'992u : 88u, Lies{right}}, is_joined);
  }
  struct Side {
    std::size_t size;
    Lies lies;
    void *self = nullptr, *before = nullptr, *after = nullptr, *beside = nullptr;
  };
  void free_between(Side left, std::size_t size, Side right, bool is_joined) {
    std::vector<void*> guards;
    const auto get = [&](std::size_t n) {
      ++most_.mallocs;
      return allocator_.malloc(n, counters_, most_.malloc);
    };
    const auto get_apart = [&](std::size_t n) {
      void* const p = get(n);
      guards.push_back(get(24));
      return p;
    };
    const auto put = [&](void*& p) {
      if (!p) return;
      allocator_.free(p, counters_, most_.free);
      ++most_.frees;
      p = nullptr;
    };
    guards.push_back(get(24));
    std::size_t whole = size;
    for (Side* side : {&left, &right}) {
      side->before = get_apart(side->size);
      side->after = get_apart(side->size);
      side->beside = get_apart(side->size + (side->size < 256 ? 16 : side->size / 8));
      if (side->lies != nowhere) whole += side->size + 8;
    }
    void* other = get_apart(whole);
    left.self = left.lies == nowhere ? nullptr : get(left.size);
    void* middle = get(size);
    right.self = right.lies == nowhere ? nullptr : get(right.size);
    guards.push_back(get(24));
    for (Side* side : {&left, &right}) {
      if (side->lies == alone_in_list) put(side->beside);
      if (side->lies == first || side->lies == between) put(side->before);
      put(side->self);
      if (side->lies == between || side->lies == last) put(side->after);
    }
    if (is_joined) put(other);
    put(middle);
    for (Side* side : {&left, &right}) put(side->before), put(side->after), put(side->beside);
    put(other);
    for (void*& guard : guards) put(guard);
  }
  /// All that a thread may keep of what it frees (EliminationArray's defaults), each block between two free neighbours that are first in their
  /// list with others behind them, and what becomes of the three going before others in its own: each step that brings one back is as long as
  /// it can be. All of it comes back in a malloc that finds no memory, refused in the end or served from what came back; those that wait
  /// come back in a free that finds no room.
  void empty_in_the_worst_way() {
    for (const bool is_full : {false, true})
      for (const unsigned waiting : {3u, 4u}) {
        drain();
        take(2 * room_);  // whatever was kept comes back
        keep_between_free_ones(waiting, is_full);
        take(is_full ? kServed : 2 * room_);
        while (!between_.empty()) give_one(between_);
      }
    drain();
  }
  static constexpr std::size_t kBeside = 264;  // a chunk of 272: four of them are kept, then four go below together
  // The block that comes back first has larger neighbours: with them it alone can serve kServed, from a level above that of its size.
  static constexpr std::size_t kBesideFirst = 4'200, kServed = 5'000, kRest = 32 + 2 * (kBesideFirst + 8) - (kServed + 8);
  void keep_between_free_ones(unsigned waiting, bool is_full) {
    struct Row {
      std::size_t size, beside;
      void *before, *block, *after;
    };
    std::vector<Row> rows(waiting, {24, kBeside, nullptr, nullptr, nullptr});  // in the order in which they come back
    rows[0].beside = kBesideFirst;
    // What lies behind others in their lists: of the smallest size in it. Four of what is not kept go below together.
    std::vector<std::size_t> behind_sizes(4, kBeside);
    const auto step_of = [](std::size_t chunk) { return chunk < 256 ? 16 : std::size_t{1} << (63 - __builtin_clzll(chunk) - 4); };
    unsigned not_kept = 4;
    const auto put_behind = [&](std::size_t chunk) {
      const std::size_t least = chunk / step_of(chunk) * step_of(chunk);
      behind_sizes.push_back(least - 8);
      if (least <= 4096) ++not_kept;
    };
    put_behind(kRest);
    put_behind(32 + 2 * (kBeside + 8));
    for (std::size_t chunk = 32, step = 16; chunk <= 4096; chunk += step) {
      step = step_of(chunk);
      put_behind(chunk + 2 * (kBeside + 8));
      for (std::size_t n = std::clamp<std::size_t>(4096 / chunk, 1, 4); n > 0; --n) rows.push_back({chunk - 8, kBeside, nullptr, nullptr, nullptr});
    }
    while ((not_kept + 2 * (rows.size() - 1)) % 4) put_behind(32 + 2 * (kBeside + 8));  // none is left to wait
    behind_sizes.insert(behind_sizes.end(), 2, kBesideFirst);
    const auto get = [&](std::size_t n) {
      ++most_.mallocs;
      void* const p = allocator_.malloc(n, counters_, most_.malloc);
      if (!p) std::fprintf(stderr, "mortise-arena: no room for what is to be kept\n"), std::exit(1);
      return p;
    };
    const auto put = [&](void* p) {
      ++most_.frees;
      allocator_.free(p, counters_, most_.free);
    };
    std::vector<void*> behind;
    for (const std::size_t size : behind_sizes) behind.push_back(get(size)), between_.push_back(get(24));
    for (Row& row : rows) {
      row.before = get(row.beside), row.block = get(row.size), row.after = get(row.beside);
      between_.push_back(get(24));
    }
    if (is_full)
      for (std::size_t piece = room_; piece >= 1'024; piece /= 2)
        while (take(piece)) {
        }
    for (std::size_t i = waiting; i < rows.size(); ++i) put(rows[i].block);
    for (void* p : behind) put(p);
    for (std::size_t i = rows.size(); i-- > 0;) put(rows[i].before), put(rows[i].after);
    for (std::size_t i = 0; i < waiting; ++i) put(rows[i].block);
  }
  void give_one(std::vector<void*>& of) {
    allocator_.free(of.back(), counters_, most_.free);
    ++most_.frees;
    of.pop_back();
  }
  void drain() {
    while (!held_.empty()) give(random_.below(held_.size()));
  }

  Counted allocator_;
  Options options_;
  const Counters& counters_;
  Random random_;
  Most most_;
  std::vector<void*> held_, between_;
  std::size_t room_ = 0;
};

/// In a process of its own: each library has its arena to itself.
Most ask(const char* path, const Options& options) {
  int gate[2];
  if (::pipe(gate) != 0) std::exit(1);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    static Counters counters;
    count_here(counters);
    Adversary adversary(load(path), options, counters);
    const Most most = adversary.run();
    ::_exit(::write(gate[1], &most, sizeof most) == sizeof most ? 0 : 1);
  }
  ::close(gate[1]);
  Most most;
  const bool told = ::read(gate[0], &most, sizeof most) == sizeof most;
  ::close(gate[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (told) return most;
  std::fprintf(stderr, "mortise-arena: the run on %s ended early (status %d)\n", path, status);
  std::exit(1);
}

[[noreturn]] void usage() {
  std::fprintf(stderr, "usage: mortise-arena COUNTED.so ... [--calls N] [--seed S] [--malloc-max N] [--free-max N] [--same]\n");
  std::exit(2);
}

int run(int argc, char** argv) {
  Options options;
  std::vector<const char*> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--", 2)) {
      files.push_back(argv[i]);
      continue;
    }
    const std::string option = argv[i];
    if (option == "--same") {
      options.same = true;
      continue;
    }
    const std::uint64_t number = i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0;
    if (number == 0) usage();
    if (option == "--calls") options.calls = number;
    else if (option == "--seed") options.seed = number;
    else if (option == "--malloc-max") options.malloc_max = number;
    else if (option == "--free-max") options.free_max = number;
    else usage();
  }
  if (files.empty()) usage();
  bool holds = true, differs = false;
  Most before;
  std::printf("%-44s %10s %10s %10s %12s %12s\n", "library", "mallocs", "refused", "frees", "most malloc", "most free");
  for (const char* file : files) {
    const Most most = ask(file, options);
    const char* name = std::strrchr(file, '/');
    std::printf("%-44s %10llu %10llu %10llu %12llu %12llu\n", name ? name + 1 : file, (unsigned long long)most.mallocs,
                (unsigned long long)most.refused, (unsigned long long)most.frees, (unsigned long long)most.malloc, (unsigned long long)most.free);
    differs = differs || (file != files.front() && (most.malloc != before.malloc || most.free != before.free));
    before = most;
    holds = holds && (!options.malloc_max || most.malloc <= options.malloc_max) && (!options.free_max || most.free <= options.free_max);
  }
  if (!holds) std::printf("a call took more instructions than its bound (malloc %llu, free %llu)\n", (unsigned long long)options.malloc_max, (unsigned long long)options.free_max);
  if (options.same && differs) std::printf("the most that a call took depends on the arena\n");
  return holds && !(options.same && differs) ? 0 : 1;
}

}  // namespace
}  // namespace mortise::count

int main(int argc, char** argv) { return mortise::count::run(argc, argv); }
