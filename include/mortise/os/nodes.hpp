// Which memory node each CPU belongs to.
//
//   /sys/devices/system/node/has_cpu ──► 0-1        node0/cpulist ──► 0-7,16-23        node1/cpulist ──► 8-15,24-31
//
// Nodes are numbered here in the order in which the system lists those with CPUs, without gaps. Reads files: call at start, not on a path
// that malloc takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/os/control_group.hpp"
#include "mortise/os/cpus.hpp"

namespace mortise::os {

inline constexpr unsigned kNodesMax = 8;  ///< of more nodes, several count as one

/// A machine without nodes is one of one node.
struct NodeMap {
  unsigned count = 1;
  std::uint8_t of_cpu[kCpusMax] = {};
};

/// The node that a heap serves.
struct HomeNode {
  const std::uint8_t* node_of_cpu;  ///< of kCpusMax
  std::uint8_t number;
  bool has(std::uint32_t cpu) const noexcept { return cpu < kCpusMax && node_of_cpu[cpu] == number; }
};

namespace detail {

/// Calls see(n) for each number of a list such as 0-3,8. Where the list ends; null where it makes no sense, or a number is `end` or more.
template <class See> const char* each_number(const char* s, char separator, unsigned end, See&& see) noexcept {
  const auto number = [&](unsigned& n) {
    const char* const first = s;
    for (n = 0; *s >= '0' && *s <= '9' && n < end; ++s) n = n * 10 + static_cast<unsigned>(*s - '0');
    return s != first && n < end;
  };
  for (;; ++s) {
    unsigned first, last;
    if (!number(first)) return nullptr;
    last = first;
    if (*s == '-' && (++s, !number(last) || last < first)) return nullptr;
    for (unsigned n = first; n <= last; ++n) see(n);
    if (*s != separator) return s;
  }
}

inline Path& add_number(Path& path, unsigned n) noexcept {
  if (n >= 10) add_number(path, n / 10);
  path.put(static_cast<char>('0' + n % 10));
  return path;
}

}  // namespace detail

/// The machine's nodes. `root`: where the system lists them; tests name other places.
inline NodeMap read_nodes(const char* root = "/sys/devices/system/node") noexcept {
  constexpr unsigned kNumbersMax = 4096;
  NodeMap map;
  char nodes[1024], cpus[4096];
  detail::Path path;
  const std::size_t length = path.add(root).length();
  if (!detail::slurp(path.add("/has_cpu").text(), nodes, sizeof nodes)) return map;
  unsigned listed = 0, seen = 0;
  detail::each_number(nodes, ',', kNumbersMax, [&](unsigned) { ++listed; });
  if (listed < 2) return map;
  detail::each_number(nodes, ',', kNumbersMax, [&](unsigned node) {
    path.cut(length);
    if (!detail::slurp(detail::add_number(path.add("/node"), node).add("/cpulist").text(), cpus, sizeof cpus)) return;
    const auto number = static_cast<std::uint8_t>(seen++ % kNodesMax);
    detail::each_number(cpus, ',', kCpusMax, [&](unsigned cpu) { map.of_cpu[cpu] = number; });
  });
  if (seen > 1) map.count = seen < kNodesMax ? seen : kNodesMax;
  return map;
}

/// Nodes as a user names them: each one's CPUs, as in 0-3+8;4-7. CPUs that are not named belong to the first. False, and `map` is
/// anything, where the text makes no sense, names a CPU twice or more than kNodesMax nodes.
inline bool parse_nodes(const char* text, NodeMap& map) noexcept {
  map = {};
  CpuSet named;
  for (unsigned node = 0; node < kNodesMax; ++node, ++text) {
    bool again = false;
    text = detail::each_number(text, '+', kCpusMax, [&](unsigned cpu) {
      std::uint64_t& word = named.words[cpu / 64];
      again |= word >> (cpu % 64) & 1;
      word |= std::uint64_t{1} << (cpu % 64);
      map.of_cpu[cpu] = static_cast<std::uint8_t>(node);
    });
    if (!text || again) return false;
    map.count = node + 1;
    if (*text != ';') return !*text;
  }
  return false;
}

/// True where this machine has, or may come to have, every CPU that `text`, which parse_nodes takes, names.
inline bool cpus_are_there(const char* text) noexcept {
  char there[1024];
  CpuSet possible;
  const auto add = [&](unsigned cpu) { possible.words[cpu / 64] |= std::uint64_t{1} << (cpu % 64); };
  const bool is_known = detail::slurp("/sys/devices/system/cpu/possible", there, sizeof there);
  if (!is_known || !detail::each_number(there, ',', kCpusMax, add)) return true;
  bool all = true;
  do text = detail::each_number(text, '+', kCpusMax, [&](unsigned cpu) { all &= possible.words[cpu / 64] >> (cpu % 64) & 1; });
  while (text && *text++ == ';');
  return all;
}

/// The same map, of one node where this process's affinity mask keeps it on the CPUs of one.
inline NodeMap nodes_allowed(NodeMap map) noexcept {
  if (map.count < 2) return map;
  CpuSet set;
  const long bytes = syscall(SYS_sched_getaffinity, 0L, sizeof set, &set);
  std::uint32_t nodes = 0;
  for (unsigned cpu = 0; bytes > 0 && cpu < static_cast<unsigned>(bytes) * 8; ++cpu)
    if (set.words[cpu / 64] >> (cpu % 64) & 1) nodes |= 1u << map.of_cpu[cpu];
  return nodes & (nodes - 1) ? map : NodeMap{};
}

}  // namespace mortise::os
