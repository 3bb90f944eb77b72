// How much of a range of addresses is in memory, as the kernel sees it at this moment: mincore, a byte for each page.
#pragma once

#include <cstddef>

#include "mortise/core/bits.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

/// Bytes of [at, at + bytes) that are in memory; holes count as nothing. `page_bytes` is the machine's. `at` is a multiple of
/// `hole_bytes`, and so is every place where a hole begins or ends. No memory of its own but 4 KiB of stack. O(pages + holes).
inline std::size_t resident_bytes(std::byte* at, std::size_t bytes, std::size_t page_bytes, std::size_t hole_bytes) noexcept {
  unsigned char in_memory[4096];
  const std::size_t most = sizeof in_memory * page_bytes;
  std::size_t pages = 0;
  for (std::size_t step = most; bytes;) {
    const std::size_t piece = bytes < step ? bytes : step;
    if (syscall(SYS_mincore, at, piece, static_cast<unsigned char*>(in_memory)) == 0) {
      for (std::size_t i = 0; i < piece / page_bytes; ++i) pages += in_memory[i] & 1;
    } else if (piece > hole_bytes) {  // there is a hole in it
      step = round_up(piece / 2, hole_bytes);
      continue;
    }
    at += piece;
    bytes -= piece;
    step = step * 2 < most ? step * 2 : most;
  }
  return pages * page_bytes;
}

}  // namespace mortise::os
