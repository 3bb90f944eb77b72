// What the control groups of this process allow: memory and CPU time. Versions 1 and 2 and hosts that run both.
//
//   /proc/self/cgroup ──► the group's path ──► its limit file, and those of all groups above it: the smallest counts
//
// Within a container the path may name folders that only the host sees; those are passed over, and the walk ends at the root,
// which is the container's own group. Reads files: call at start, not on a path that malloc takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mortise/os/syscall.hpp"

namespace mortise::os {

inline constexpr std::uint64_t kNoGroupLimit = ~std::uint64_t{0};

namespace detail {

/// Reads a small file into `buffer`, zero-terminated; the bytes read, 0 when it is not there.
inline std::size_t slurp(const char* path, char* buffer, std::size_t capacity) noexcept {
  constexpr long kAtCwd = -100, kReadOnlyCloexec = 02000000;
  const long fd = syscall(SYS_openat, kAtCwd, path, kReadOnlyCloexec, 0L);
  if (fd < 0) return 0;
  const long n = syscall(SYS_read, fd, buffer, capacity - 1);
  syscall(SYS_close, fd);
  buffer[n > 0 ? n : 0] = 0;
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}
inline const char* read_number(const char* s, std::uint64_t& value) noexcept {
  while (*s == ' ') ++s;
  if (*s < '0' || *s > '9') return nullptr;
  for (value = 0; *s >= '0' && *s <= '9'; ++s) value = value * 10 + static_cast<std::uint64_t>(*s - '0');
  return s;
}

/// A path that grows and shrinks at its end; what does not fit makes it invalid.
class Path {
 public:
  Path& add(const char* s) noexcept {
    while (*s && *s != '\n') put(*s++);
    return *this;
  }
  void put(char c) noexcept {
    if (length_ + 1 < sizeof text_) text_[length_++] = c;
    text_[length_] = 0;
  }
  /// Takes the last component off; false at `root` characters.
  bool up(std::size_t root) noexcept {
    if (length_ <= root) return false;
    while (length_ > root && text_[length_ - 1] != '/') --length_;
    if (length_ > root) --length_;
    text_[length_] = 0;
    return true;
  }
  std::size_t length() const noexcept { return length_; }
  void cut(std::size_t length) noexcept { text_[length_ = length] = 0; }
  const char* text() const noexcept { return text_; }

 private:
  char text_[768] = {};
  std::size_t length_ = 0;
};

/// The path of this process's group for `controller` in the text of /proc/self/cgroup; version 2 has one group for all, asked
/// for with "". Null when it has none.
inline const char* group_path(const char* text, const char* controller) noexcept {
  while (*text) {
    const char* s = text;
    while (*s && *s != ':') ++s;          // the hierarchy's number
    bool found = *s && !*controller && s[1] == ':';
    while (*s && *s != '\n' && (*s == ':' || *s == ',')) {  // the names of its controllers
      ++s;
      const char* c = controller;
      while (*c && *c == *s) ++c, ++s;
      if (*controller && !*c && (*s == ',' || *s == ':')) found = true;
      while (*s && *s != ',' && *s != ':' && *s != '\n') ++s;
      if (*s == ':') break;
    }
    if (found && *s == ':') return s + 1;
    while (*text && *text != '\n') ++text;
    if (*text) ++text;
  }
  return nullptr;
}

/// Calls `see(folder)` for the group's folder under `mount` and each one above it.
template <class See> void each_group(const char* mount, const char* path, See&& see) noexcept {
  Path folder;
  folder.add(mount);
  const std::size_t root = folder.length();
  if (path && !(path[0] == '/' && (path[1] == '\n' || path[1] == 0))) folder.add(path);
  do {
    see(folder);
  } while (folder.up(root));
}

/// The number in `file` of `folder`, 0 when there is none ("max" means none).
inline std::uint64_t number_in(Path& folder, const char* file) noexcept {
  char text[64];
  std::uint64_t value = 0;
  const std::size_t length = folder.length();
  folder.add("/").add(file);
  if (!slurp(folder.text(), text, sizeof text) || !read_number(text, value)) value = 0;
  folder.cut(length);
  return value;
}

}  // namespace detail

/// Where control groups are found; tests name other places.
struct GroupFiles {
  const char* own = "/proc/self/cgroup";
  const char* root = "/sys/fs/cgroup";
};

/// The most memory that the groups of this process allow, in bytes; kNoGroupLimit without a limit.
inline std::uint64_t memory_in_group(GroupFiles files = {}) noexcept {
  char own[4096];
  if (!detail::slurp(files.own, own, sizeof own)) own[0] = 0;
  std::uint64_t least = kNoGroupLimit;
  const auto look = [&](const char* below_root, const char* controller, const char* file) {
    detail::Path mount;
    mount.add(files.root).add(below_root);
    detail::each_group(mount.text(), detail::group_path(own, controller), [&](detail::Path& folder) {
      const std::uint64_t bytes = detail::number_in(folder, file);
      // Version 1 says "no limit" as the largest multiple of a page.
      if (bytes && bytes < std::uint64_t{1} << 62 && bytes < least) least = bytes;
    });
  };
  look("", "", "memory.max");
  look("/unified", "", "memory.max");
  look("/memory", "memory", "memory.limit_in_bytes");
  return least;
}

/// CPUs that the quotas of this process's groups amount to, rounded up; `none` when no quota is below that.
inline unsigned cpus_in_quota(unsigned none, GroupFiles files = {}) noexcept {
  char own[4096];
  if (!detail::slurp(files.own, own, sizeof own)) own[0] = 0;
  unsigned least = none;
  const auto count = [&](std::uint64_t quota, std::uint64_t period) {
    if (!quota || !period) return;
    const std::uint64_t cpus = (quota + period - 1) / period;
    if (cpus && cpus < least) least = static_cast<unsigned>(cpus);
  };
  detail::each_group(files.root, detail::group_path(own, ""), [&](detail::Path& folder) {  // version 2: "QUOTA PERIOD"
    char text[64];
    std::uint64_t quota = 0, period = 0;
    const std::size_t length = folder.length();
    if (detail::slurp(folder.add("/cpu.max").text(), text, sizeof text))
      if (const char* rest = detail::read_number(text, quota); rest && detail::read_number(rest, period)) count(quota, period);
    folder.cut(length);
  });
  detail::Path mount;
  mount.add(files.root).add("/cpu");
  detail::each_group(mount.text(), detail::group_path(own, "cpu"), [&](detail::Path& folder) {  // version 1; -1 is no quota
    count(detail::number_in(folder, "cpu.cfs_quota_us"), detail::number_in(folder, "cpu.cfs_period_us"));
  });
  return least;
}

/// Bytes of the machine's memory; 0 when it does not say.
inline std::uint64_t memory_of_machine() noexcept {
  struct {  // the kernel's struct sysinfo
    long uptime;
    unsigned long loads[3], total, free, shared, buffered, swap_total, swap_free;
    unsigned short processes, pad;
    unsigned long high_total, high_free;
    unsigned int unit;
    char rest[64];
  } info{};
  return syscall(SYS_sysinfo, &info) == 0 ? std::uint64_t{info.total} * (info.unit ? info.unit : 1) : 0;
}

}  // namespace mortise::os
