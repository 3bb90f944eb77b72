// What every workload shares: options, threads, blocks that prove themselves, and the one line of JSON at the end.
//
// A workload is a function from a share of the work to a tally. The work is fixed (a number of operations, not a time),
// and the checksum depends on the work alone, so two allocators that both work print the same line.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace bench {

/// A small generator of good quality: what decides sizes and order must be the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::uint64_t below(std::uint64_t bound) { return (static_cast<unsigned __int128>(next()) * bound) >> 64; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

  /// Sizes as programs ask for them: an octave is as likely as the next, so small ones are many and large ones few.
  std::uint64_t size(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t top = between(low, high);
    const std::uint64_t cut = top >> below(64 - __builtin_clzll(high / low | 1));
    return cut < low ? low : cut;
  }

 private:
  std::uint64_t state_;
};

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "bench: %s: the allocator under test is broken\n", what);
  std::_Exit(3);
}

/// Writes to a new block as its owner would: one word in every cache line and one at the end.
inline void fill(void* block, std::size_t size, std::uint64_t tag) {
  if (block == nullptr) fail("no memory");
  char* at = static_cast<char*>(block);
  if (size < sizeof tag) {
    std::memset(at, static_cast<int>(tag), size);
    return;
  }
  for (std::size_t i = 0; i + sizeof tag <= size; i += 64) std::memcpy(at + i, &tag, sizeof tag);
  std::memcpy(at + size - sizeof tag, &tag, sizeof tag);
}

/// Reads both ends of a block back; another owner's words there mean that two blocks overlap.
inline std::uint64_t check(const void* block, std::size_t size, std::uint64_t tag) {
  const char* at = static_cast<const char*>(block);
  if (size < sizeof tag) {
    for (std::size_t i = 0; i < size; ++i)
      if (at[i] != static_cast<char>(tag)) fail("a block lost what was written to it");
    return size;
  }
  // The end is written last, so a short block holds its tag whole only there.
  std::uint64_t last;
  std::memcpy(&last, at + size - sizeof tag, sizeof tag);
  if (last != tag) fail("a block lost what was written to it");
  if (size >= 2 * sizeof tag && std::memcmp(at, &tag, sizeof tag) != 0) fail("a block lost what was written to it");
  return size;
}

/// A block with its size and its tag: taken full, given back checked.
struct Piece {
  void* block = nullptr;
  std::uint32_t size = 0;
  std::uint32_t tag = 0;

  static Piece take(std::size_t size, std::uint64_t tag) {
    Piece piece{std::malloc(size), static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(tag)};
    fill(piece.block, size, piece.tag);
    return piece;
  }

  std::uint64_t give_back() {
    if (block == nullptr) return 0;
    const std::uint64_t sum = check(block, size, tag);
    std::free(block);
    block = nullptr;
    return sum;
  }
};

/// What one thread is asked to do.
struct Share {
  unsigned thread;
  unsigned threads;
  std::uint64_t ops;
  Random random;
};

/// Runs `body(n)` on `threads` threads that start together, and waits for them.
template <class Body>
void on_threads(unsigned threads, Body body) {
  std::atomic<unsigned> ready{0};
  std::vector<std::thread> crew;
  for (unsigned n = 0; n < threads; ++n)
    crew.emplace_back([&, n] {
      ready.fetch_add(1);
      while (ready.load() < threads) std::this_thread::yield();
      body(n);
    });
  for (std::thread& one : crew) one.join();
}

/// The library that serves malloc in this process: the proof that the arm under test is the one that ran.
inline const char* serving_library() {
  Dl_info info;
  void* served = dlsym(RTLD_DEFAULT, "malloc");
  return served != nullptr && dladdr(served, &info) != 0 ? info.dli_fname : "unknown";
}

struct Options {
  unsigned threads = 1;
  std::uint64_t ops;

  Options(int argc, char** argv, std::uint64_t ops_by_default) : ops(ops_by_default) {
    for (int i = 1; i < argc; i += 2) {
      const std::uint64_t value = i + 1 < argc ? std::strtoull(argv[i + 1], nullptr, 10) : 0;
      if (std::strcmp(argv[i], "--threads") == 0 && value > 0) {
        threads = static_cast<unsigned>(value);
      } else if (std::strcmp(argv[i], "--ops") == 0 && value > 0) {
        ops = value;
      } else {
        std::fprintf(stderr, "%s: cannot use '%s': expected --threads N or --ops N, N at least 1\n", argv[0], argv[i]);
        std::exit(2);
      }
    }
  }
};

inline int report(const char* name, const Options& options, std::uint64_t checksum) {
  std::printf("{\"workload\":\"%s\",\"threads\":%u,\"ops\":%llu,\"checksum\":\"%016llx\",\"malloc\":\"%s\"}\n", name,
              options.threads, static_cast<unsigned long long>(options.ops), static_cast<unsigned long long>(checksum),
              serving_library());
  return 0;
}

/// The usual main: the operations are shared out evenly, the checksums of the threads add up.
template <class Work>
int run(int argc, char** argv, const char* name, std::uint64_t ops_by_default, Work work) {
  const Options options(argc, argv, ops_by_default);
  std::atomic<std::uint64_t> checksum{0};
  const auto share = [&](unsigned n) {
    return Share{n, options.threads, options.ops / options.threads, Random(n + 1)};
  };
  if (options.threads == 1) checksum = work(share(0));
  else on_threads(options.threads, [&](unsigned n) { checksum += work(share(n)); });
  return report(name, options, checksum);
}

}  // namespace bench
