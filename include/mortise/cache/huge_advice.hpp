// What a heap says to the kernel about huge pages, for the part of it that asks for them, and when it takes that back.
//
//   grows ──► "huge pages, please" ──(the program rests, its free pages went back)──► "none" ──(it takes 2 MiB of them again)──► "please"
//
// A kernel that may use huge pages also makes them later, of small ones and of nothing: while a program slept, a third of what had been
// given back came again every ten seconds. Under the lock of whoever owns the spans. O(mappings), in the kernel, when something changes.
#pragma once

#include <type_traits>

#include "mortise/core/core.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/policy/huge.hpp"
#include "mortise/shape/page_index.hpp"

namespace mortise {

template <HugePolicy Huge, Indexed Below> class HugeAdvice {
  using Index = IndexOf<Below>;

 public:
  void set(HugePages pages) noexcept { pages_ = pages; }
  /// Whether a heap that has grown by so much asks for huge pages for all that it grows by next.
  bool asks_from(std::size_t grown_bytes) const noexcept {
    return pages_ == HugePages::madvise || (grown_bytes >= from_bytes() && pages_ == HugePages::automatic);
  }
  /// Whether a block of so many bytes asks for them alone, in a heap that does not: they can be a good part of it. Not where the policy
  /// weighs one heap against others.
  bool asks_for(std::size_t block_bytes) const noexcept {
    if constexpr (requires { Huge::from_bytes(); }) return false;
    else return block_bytes >= kBlockBytes && !std::is_same_v<Huge, huge::Never> && pages_ == HugePages::automatic;
  }
  /// Whether the pages of so large a block stay where they are when it grows. Moved to another place within 2 MiB they are small pages, and
  /// so is what they leave behind; to copy the bytes into a huge page costs less, until they are many. Nor do a few pages move otherwise:
  /// each move may leave two mappings more, for good, and a process may have 65530, of which the heap is to need no more than half.
  bool keeps_in_place(const Index& index, std::size_t block_bytes) const noexcept {
    if (block_bytes < kMovedLeast || block_bytes < reach_of(index) / kMovedMost) return true;
    return all_ && !rests_ && block_bytes < kMovedBytes;
  }
  /// At least so many bytes more, up to where a huge page would end: the next growth begins with a whole one.
  static std::size_t to_boundary(const Index& index, std::size_t bytes) noexcept {
    return round_up(reach_of(index) + bytes, huge::kPageBytes) - reach_of(index);
  }
  /// `for_all`: for what the heap grows by, not for a block alone.
  void ask(Block b, bool for_all) noexcept {
    os::advise_huge(b.ptr, b.size);
    asked_ = true;
    if (for_all) all_ = true;
    if (!all_) rests_ = false;
  }
  /// A part of the heap was mapped anew, and nothing is known of what was said about it.
  void repeat(std::byte* at, std::size_t bytes) noexcept {
    if (asked_ && !rests_) os::advise_huge(at, bytes);
  }
  /// True when the kernel had been asked until now: what was given back before may be there again. Not where the user asks.
  bool rest(const Index& index) noexcept {
    if (!asked_ || rests_ || pages_ == HugePages::madvise) return false;
    os::advise_no_huge(index.granule_at(0), reach_of(index));
    rests_ = true;
    taken_bytes_ = 0;
    return true;
  }
  /// A clean span of so many bytes is taken. Where only blocks have asked, they ask no more.
  void take(const Index& index, std::size_t bytes) noexcept {
    if (!rests_ || !all_ || (taken_bytes_ += bytes) < huge::kPageBytes) [[likely]] return;
    os::advise_huge(index.granule_at(0), reach_of(index));
    rests_ = false;
  }

 private:
  static constexpr std::size_t kBlockBytes = 2 * huge::kPageBytes, kMovedBytes = 4 * huge::kPageBytes;
  static constexpr std::size_t kMovedLeast = 256_KiB, kMovedMost = 16384;  ///< blocks that were moved and are there, two mappings each

  static std::size_t from_bytes() noexcept {
    if constexpr (requires { Huge::from_bytes(); }) return Huge::from_bytes();
    else return Huge::kFromBytes;
  }
  static std::size_t reach_of(const Index& index) noexcept { return std::size_t{index.covered()} * Index::kGranule; }

  HugePages pages_ = HugePages::automatic;
  bool asked_ = false;
  bool all_ = false;  ///< not only blocks have asked
  bool rests_ = false;
  std::size_t taken_bytes_ = 0;  ///< since it rests
};

}  // namespace mortise
