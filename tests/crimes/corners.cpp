// Crimes that few commit, and honest acts that look like one: corners NAME. Prints the pointer that a report must name, and ends with 0 when
// nothing has ended it, with 1 when the heap is not what it was.
#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <thread>
#include <vector>

#include "crimes.hpp"

namespace {
using namespace crimes;

char* as_told(void* p) {
  announce(p);
  return static_cast<char*>(p);
}
int overflow(char* p, std::size_t n) {
  write_at(p, static_cast<long>(n));
  release(p);
  return 0;
}

/// The class, or the span, is larger than what was asked for by more than 64 KiB.
int overflow_of_a_small_block_on_a_large_alignment() { return overflow(as_told(aligned_alloc(32768, hidden(std::size_t{100}))), 100); }
int overflow_of_a_large_block_that_shrank() { return overflow(as_told(realloc(block(390 << 10), hidden(std::size_t{256} << 10))), 256 << 10); }
int sized_delete_of_a_large_block() {
  ::operator delete(as_told(block(1 << 20)), hidden(std::size_t{1} << 19));
  return 0;
}
int sized_delete_of_a_small_block_on_a_large_alignment() {
  ::operator delete(as_told(aligned_alloc(32768, hidden(std::size_t{100}))), hidden(std::size_t{200}), std::align_val_t{32768});
  return 0;
}
template <std::size_t kSize> int sized_delete_twice() {
  char* const p = as_told(::operator new(hidden(kSize)));
  for (int i = 0; i < 2; ++i) ::operator delete(hidden(p), hidden(kSize));
  return 0;
}
template <std::size_t kSize> int sized_delete_inside() {
  ::operator delete(as_told(block(kSize) + 32), hidden(kSize));
  return 0;
}
/// Both as the release that a realloc to nothing is; blocks so large fill the quarantine's batch, which is no hit.
int realloc_to_nothing_twice() {
  for (int i = 0; i < 3; ++i) release(block(20000));
  char* const p = as_told(block(20000));
  for (int i = 0; i < 2; ++i)
    if (realloc(hidden(p), hidden(std::size_t{0}))) return 1;
  return 0;
}
int free_on_a_threads_stack() {
  std::thread([] {
    alignas(64) char local[256] = {};
    free(hidden(as_told(local + 64)));
  }).join();
  return 0;
}

int usable_size_on_the_stack() {
  alignas(64) char local[256] = {};
  printf("%zu\n", malloc_usable_size(hidden(as_told(local + 64))));
  return 0;
}

/// One that lies alone, at its page's end: others have a tail there.
template <class Make> char* sampled(Make make, void (*give)(void*)) {
  int ends[2];
  if (pipe(ends)) return nullptr;
  const auto is_readable = [&ends](const char* at) {
    char byte;
    return write(ends[1], hidden(at), 1) == 1 && read(ends[0], &byte, 1) == 1;
  };
  for (int i = 0; i < 20'000'000; ++i) {
    char* const p = make();
    if (reinterpret_cast<uintptr_t>(p + 64) % 4096 == 0 && !is_readable(hidden(p) + 64)) return as_told(p);
    give(p);
  }
  return nullptr;
}
int new_of_a_sampled_block() {
  const auto give = [](void* p) { ::operator delete(p); };
  char* const p = sampled([] { return static_cast<char*>(::operator new(hidden(std::size_t{64}))); }, give);
  for (int i = 0; i < 2; ++i) give(hidden(p));
  return 0;
}
int realloc_to_a_sampled_block() {
  char* const p = sampled([] { return static_cast<char*>(realloc(malloc(hidden(std::size_t{16})), hidden(std::size_t{64}))); }, free);
  for (int i = 0; i < 2; ++i) release(p);
  return 0;
}

/// Whether no two of many blocks overlap one another or `q`, and all keep what was written to them.
bool is_sound(char* q, std::size_t n) {
  std::vector<char*> all;
  if (q) all.push_back(q);
  for (unsigned i = 0; i < 2000; ++i) all.push_back(block(n));
  for (std::size_t i = 0; i < all.size(); ++i) memset(all[i], static_cast<int>(i % 255), n);
  bool sound = true;
  for (std::size_t i = 0; i < all.size(); ++i) sound &= all[i][0] == static_cast<char>(i % 255) && all[i][n - 1] == all[i][0];
  std::sort(all.begin(), all.end());
  for (std::size_t i = 1; i < all.size(); ++i) sound &= all[i - 1] + n <= all[i];
  for (char* p : all) release(p);
  return sound;
}
template <std::size_t kFrom, std::size_t kTo> int realloc_of_a_released_block_and_on() {
  char* const p = as_told(block(kFrom));
  release(p);
  auto* const q = static_cast<char*>(realloc(hidden(p), hidden(kTo)));
  return q && is_sound(q, kTo < 1000 ? kTo : 1000) ? 0 : 1;
}
template <std::size_t kFrom, std::size_t kTo> int realloc_inside_and_on() {
  char* const p = block(kFrom);
  auto* const q = static_cast<char*>(realloc(as_told(hidden(p) + 64), hidden(kTo)));
  bool sound = q && (q + kTo <= p || q >= p + kFrom);
  if (sound) memset(q, 'q', kTo);
  for (std::size_t i = 0; i < kFrom; ++i) sound &= p[i] == 'a';
  release(p);
  release(q);
  return sound && is_sound(nullptr, 100) ? 0 : 1;
}

/// As honest as a program can be: blocks of libc's own malloc, and no descriptor left to look anything up with.
int foreign_without_descriptors() {
  auto* const theirs = reinterpret_cast<void* (*)(std::size_t)>(dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "malloc"));
  void* const p = as_told(theirs(100));
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_NOFILE, &none);
  release(p);
  return 0;
}
/// No access, so nothing that runs again and ends the program.
template <int kSignal> int sent() {
  raise(kSignal);
  return 0;
}

constexpr struct {
  const char* name;
  int (*run)();
} kAll[] = {
    {"overflow_of_a_small_block_on_a_large_alignment", overflow_of_a_small_block_on_a_large_alignment},
    {"overflow_of_a_large_block_that_shrank", overflow_of_a_large_block_that_shrank},
    {"sized_delete_of_a_large_block", sized_delete_of_a_large_block},
    {"sized_delete_of_a_small_block_on_a_large_alignment", sized_delete_of_a_small_block_on_a_large_alignment},
    {"sized_delete_twice", sized_delete_twice<100>},
    {"sized_delete_of_a_large_block_twice", sized_delete_twice<1 << 20>},
    {"sized_delete_inside", sized_delete_inside<100>},
    {"sized_delete_inside_a_large_block", sized_delete_inside<1 << 20>},
    {"realloc_to_nothing_twice", realloc_to_nothing_twice},
    {"free_on_a_threads_stack", free_on_a_threads_stack},
    {"new_of_a_sampled_block", new_of_a_sampled_block},
    {"realloc_to_a_sampled_block", realloc_to_a_sampled_block},
    {"usable_size_on_the_stack", usable_size_on_the_stack},
    {"realloc_of_a_released_block_and_on", realloc_of_a_released_block_and_on<100, 90>},
    {"realloc_of_a_released_large_block_and_on", realloc_of_a_released_block_and_on<1 << 20, 900'000>},
    {"realloc_inside_and_on", realloc_inside_and_on<200, 100>},
    {"realloc_inside_a_large_block_and_on", realloc_inside_and_on<1 << 20, 1 << 19>},
    {"foreign_without_descriptors", foreign_without_descriptors},
    {"sent_segv", sent<SIGSEGV>},
    {"sent_bus", sent<SIGBUS>},
};

}  // namespace

int main(int count, char** words) {
  for (const auto& one : kAll)
    if (count == 2 && strcmp(words[1], one.name) == 0) return one.run();
  fprintf(stderr, "corners: expected one of\n");
  for (const auto& one : kAll) fprintf(stderr, "  %s\n", one.name);
  return 2;
}
