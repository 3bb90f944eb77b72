// What the kernel was told of a mapping, read back from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace mortise::test {

/// What was last said of the mapping at `p`: "hg", "nh", or nothing.
inline std::string advice_at(const std::byte* p) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line, word;
  for (bool is_ours = false; std::getline(smaps, line);) {
    std::uintptr_t from, to;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) is_ours = reinterpret_cast<std::uintptr_t>(p) - from < to - from;
    if (!is_ours || line.rfind("VmFlags:", 0) != 0) continue;
    for (std::istringstream flags(line); flags >> word;)
      if (word == "hg" || word == "nh") return word;
  }
  return "";
}

}  // namespace mortise::test
