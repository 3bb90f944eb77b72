// What is in a block, looked at with the speed of memcmp: an assertion for each byte is what tests would spend their time on.
#pragma once

#include <cstddef>
#include <cstring>

namespace mortise::test {

inline bool all_bytes_are(std::byte value, const std::byte* p, std::size_t bytes) {
  return bytes == 0 || (p[0] == value && std::memcmp(p, p + 1, bytes - 1) == 0);  // each as the one before it
}

}  // namespace mortise::test
