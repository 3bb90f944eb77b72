// Uses of a block after its release, and second releases; reads are a kind of their own.
#include <thread>

#include "crimes.hpp"

namespace crimes {
namespace {

Harm after_double_free(std::size_t n) { return same_block_twice(n) ? Harm::done : Harm::none; }

template <std::size_t kSize> Harm free_twice() {
  char* const p = block(kSize);
  announce(p);
  release(p);
  release(p);
  return after_double_free(kSize);
}
Harm free_twice_with_one_between() {
  char* const p = block(100);
  char* const other = block(100);
  announce(p);
  release(p);
  release(other);
  release(p);
  return after_double_free(100);
}
Harm free_twice_much_later() {
  char* const p = block(100);
  announce(p);
  release(p);
  char* others[50];
  for (char*& other : others) other = block(100 + static_cast<std::size_t>(&other - others));
  for (char* other : others) release(other);
  release(p);
  return after_double_free(100);
}
Harm free_twice_after_trim() {
  char* const p = block(100);
  announce(p);
  release(p);
  malloc_trim(0);
  release(p);
  return after_double_free(100);
}
/// Between the two releases the program takes a block of the size: where memory is reused at once, it is robbed of it.
Harm free_what_was_reused() {
  char* const p = block(100);
  announce(p);
  release(p);
  char* const heir = block(100);
  release(p);
  char* const next = block(100);
  const bool robbed = next == heir;
  return robbed ? Harm::done : Harm::none;
}
Harm free_in_two_threads() {
  char* const p = block(1000);
  announce(p);
  std::thread([p] { release(p); }).join();
  std::thread([p] { release(p); }).join();
  return after_double_free(1000);
}
Harm free_here_and_in_a_thread() {
  char* const p = block(100);
  announce(p);
  release(p);
  std::thread([p] { release(p); }).join();
  return after_double_free(100);
}
Harm free_what_realloc_freed() {
  char* const p = block(100);
  announce(p);
  char* const q = static_cast<char*>(realloc(hidden(p), 100000));
  release(p);
  release(q);
  return after_double_free(100);
}
Harm delete_twice() {
  auto* const p = ::operator new(hidden(64));
  announce(p);
  ::operator delete(hidden(p));
  ::operator delete(hidden(p));
  return after_double_free(64);
}
Harm realloc_freed() {
  char* const p = block(100);
  announce(p);
  release(p);
  release(realloc(hidden(p), 200));
  return Harm::done;
}
Harm usable_size_of_freed() {
  char* const p = block(1 << 20);
  announce(p);
  release(p);
  fprintf(stdout, "%zu\n", malloc_usable_size(hidden(p)));
  return Harm::done;
}

template <std::size_t kSize, long kAt, std::size_t kLength> Harm write_after_free() {
  char* const p = block(kSize);
  announce(p);
  release(p);
  write_at(p, kAt, kLength);
  return Harm::done;
}
Harm write_through_what_realloc_left() {
  char* const p = block(100);
  announce(p);
  char* const q = static_cast<char*>(realloc(hidden(p), 100000));
  write_at(p, 40, 8);
  release(q);
  return Harm::done;
}
Harm write_in_another_thread_after_free() {
  char* const p = block(200);
  announce(p);
  release(p);
  std::thread([p] { write_at(p, 16, 8); }).join();
  return Harm::done;
}

/// A read is harmful when it finds what the program had written.
template <std::size_t kSize, long kAt> Harm read_after_free() {
  char* const p = block(kSize);
  announce(p);
  release(p);
  return static_cast<volatile char*>(hidden(p))[kAt] == 'a' ? Harm::done : Harm::none;
}
Harm read_what_was_left_behind() {
  char* const p = block(200);
  announce(p);
  release(p);
  auto* const q = static_cast<volatile char*>(malloc(hidden(200)));
  for (int i = 16; i < 200; ++i)
    if (q[i] == 'a') return Harm::done;
  return Harm::none;
}
template <std::size_t kSize, std::size_t kFar> Harm read_past_the_end() {
  char* const p = block(kSize);
  char* const next = block(kSize);
  announce(p);
  bool found = false;
  for (std::size_t i = kSize; i < kSize + kFar; ++i) found |= static_cast<volatile char*>(hidden(p))[i] == 'a';
  release(next);
  return found ? Harm::done : Harm::none;
}

}  // namespace

const Crime kTemporal[] = {
    {"double_free", "temporal", free_twice<100>},
    {"double_free_small", "temporal", free_twice<16>},
    {"double_free_medium", "temporal", free_twice<40000>},
    {"double_free_large", "temporal", free_twice<(1 << 20)>},
    {"double_free_with_one_between", "temporal", free_twice_with_one_between},
    {"double_free_much_later", "temporal", free_twice_much_later},
    {"double_free_later", "temporal", free_twice_after_trim},
    {"double_free_of_a_reused_block", "temporal", free_what_was_reused},
    {"double_free_by_two_threads", "temporal", free_in_two_threads},
    {"double_free_here_and_in_a_thread", "temporal", free_here_and_in_a_thread},
    {"double_free_after_realloc", "temporal", free_what_realloc_freed},
    {"double_delete", "temporal", delete_twice},
    {"realloc_after_free", "temporal", realloc_freed},
    {"usable_size_of_freed_large", "temporal", usable_size_of_freed},
    {"write_after_free_start", "temporal", write_after_free<100, 0, 8>},
    {"write_after_free_middle", "temporal", write_after_free<1000, 500, 1>},
    {"write_after_free_end", "temporal", write_after_free<240, 239, 1>},
    {"write_after_free_small", "temporal", write_after_free<16, 8, 8>},
    {"write_after_free_medium", "temporal", write_after_free<16000, 9000, 8>},
    {"write_after_realloc_moved", "temporal", write_through_what_realloc_left},
    {"write_after_free_by_a_thread", "temporal", write_in_another_thread_after_free},
    {"read_after_free", "read", read_after_free<200, 100>},
    {"read_after_free_medium", "read", read_after_free<16000, 9000>},
    {"read_after_free_large", "read", read_after_free<(1 << 20), 600000>},
    {"read_of_left_over_bytes", "read", read_what_was_left_behind},
    {"read_past_the_end", "read", read_past_the_end<64, 64>},
};
const std::size_t kTemporalCount = sizeof kTemporal / sizeof *kTemporal;

}  // namespace crimes
