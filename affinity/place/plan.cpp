#include "affinity/place/plan.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "mortise/os/console.hpp"
#include "mortise/os/pages.hpp"

namespace mortise::affinity {
namespace {

constexpr char kFirstLine[] = "mortise-affinity-plan 1\n";

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0xff51afd7ed558ccdull;
  return h ^ h >> 29;
}

int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool number(const char*& at, const char* end, int base, std::uint64_t& n) {
  const char* const first = at;
  for (n = 0; at < end; ++at) {
    const int d = digit_of(*at);
    if (d < 0 || d >= base || n >> 58) break;
    n = n * static_cast<unsigned>(base) + static_cast<unsigned>(d);
  }
  return at > first;
}

bool word(const char*& at, const char* end, const char* expected) {
  const std::size_t length = strlen(expected);
  if (static_cast<std::size_t>(end - at) < length || memcmp(at, expected, length) != 0) return false;
  at += length;
  return true;
}

bool field(const char*& at, const char* end, const char* name, std::uint64_t& n) { return word(at, end, name) && number(at, end, 10, n); }

const char* base_name(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

template <class T> bool take(T*& table, std::size_t count) {
  if (!table) table = reinterpret_cast<T*>(analysis_memory(count * sizeof(T)));
  return table != nullptr;
}

}  // namespace

bool Plan::parse_module(const char*& at, const char* end) noexcept {
  std::uint64_t n;
  if (!number(at, end, 10, n) || n != module_count_ + 1 || n >= kModulesMax || !word(at, end, " ")) return false;
  PlanModule& m = modules_[n];
  for (; at + 1 < end && digit_of(at[0]) >= 0 && digit_of(at[1]) >= 0 && m.build_id_bytes < kBuildIdBytes; at += 2)
    m.build_id[m.build_id_bytes++] = static_cast<std::uint8_t>(digit_of(at[0]) << 4 | digit_of(at[1]));
  if (!m.build_id_bytes || !word(at, end, " ")) return false;
  m.path = static_cast<std::uint32_t>(at - text_);
  while (at < end && *at != '\n') ++at;
  m.path_bytes = static_cast<std::uint32_t>(at - text_) - m.path;
  ++module_count_;
  return true;
}

bool Plan::parse_node(const char*& at, const char* end) noexcept {
  std::uint64_t size_class, bytes, objects, heat, pool, module, offset;
  if (!field(at, end, "class=", size_class) || !field(at, end, " bytes=", bytes) || !field(at, end, " objects=", objects) ||
      !field(at, end, " heat=", heat) || !field(at, end, " pool=", pool) || !word(at, end, " chain="))
    return false;
  if (pool >= kNodesOfPlanMax || node_count_ + 1 >= kNodesOfPlanMax) return false;
  std::uint64_t prefix[kChainMax], hash = size_class;
  unsigned length = 0;
  do {
    if (length == kChainMax || !number(at, end, 10, module) || !word(at, end, "+") || !number(at, end, 16, offset)) return false;
    if (!module || module > module_count_) return false;
    prefix[length++] = hash = mix(mix(hash, module), offset);
  } while (word(at, end, ","));
  planned_[++node_count_] = {static_cast<std::uint32_t>(pool)};
  for (unsigned n = 0; n < length; ++n) insert(prefix[n], n + 1 == length ? node_count_ : 0);
  return true;
}

void Plan::insert(std::uint64_t hash, std::uint32_t node) noexcept {
  hash |= 1;
  if (key_count_ * 2 >= kKeySlots) return;
  for (std::uint64_t i = hash >> 20;; ++i) {
    Key& k = keys_[i % kKeySlots];
    if (k.hash == hash) {
      if (!node) k.node = 0;  // the longer chain says that it is a wrapper
      return;
    }
    if (k.hash) continue;
    k = {hash, node};
    ++key_count_;
    return;
  }
}

const Plan::Key* Plan::find(std::uint64_t hash) const noexcept {
  hash |= 1;
  for (std::uint64_t i = hash >> 20;; ++i) {
    const Key& k = keys_[i % kKeySlots];
    if (k.hash == hash) return &k;
    if (!k.hash) return nullptr;
  }
}

bool Plan::read(const char* text, std::size_t length, const char* path) noexcept {
  path_ = path, text_ = text;
  const char *at = text, *const end = text + length;
  std::uint64_t line = 1;
  bool good = word(at, end, kFirstLine) && take(keys_, kKeySlots) && take(modules_, kModulesMax) &&
              take(planned_, kNodesOfPlanMax) && take(first_of_pool_, kNodesOfPlanMax);
  while (good && at < end) {
    ++line;
    if (word(at, end, "module ")) good = parse_module(at, end);
    else if (word(at, end, "node ")) good = parse_node(at, end);
    else if (*at == '#' || word(at, end, "pair "))
      while (at < end && *at != '\n') ++at;
    else if (*at != '\n') good = false;
    good = good && word(at, end, "\n");
  }
  if (good) return true;
  os::Line<768> message;
  message.text("mortise: affinity_plan=").text(path).text(": line ").number(line);
  message.text(" is not of a plan of version 1; make it again with mortise affinity --plan; running without it").flush();
  refused_ = true;
  return false;
}

bool Plan::load(const char* path) noexcept {
  struct stat facts {};
  path_ = path;
  const long fd = os::syscall(SYS_openat, long{AT_FDCWD}, path, long{O_RDONLY | O_CLOEXEC}, 0L);
  const bool is_there = fd >= 0 && os::syscall(SYS_fstat, fd, &facts) == 0 && facts.st_size > 0;
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  std::byte* const copy = is_there && bytes <= kFileBytesMax ? os::map(round_up(bytes, std::size_t{4096})) : nullptr;
  std::size_t read_so_far = 0;
  while (copy && read_so_far < bytes) {
    const long n = os::syscall(SYS_read, fd, copy + read_so_far, bytes - read_so_far);
    if (n <= 0) break;
    read_so_far += static_cast<std::size_t>(n);
  }
  if (fd >= 0) os::syscall(SYS_close, fd);
  if (read_so_far) return read(reinterpret_cast<const char*>(copy), read_so_far, path);
  os::Line<768> message;
  message.text("mortise: affinity_plan=").text(path);
  message.text(is_there ? " cannot be read; expected a plan of at most 16 MiB; running without it"
                        : " is not there; make it with mortise affinity --plan; running without it").flush();
  refused_ = true;
  return false;
}

/// Whether a module with another build id is what the plan means by `p`.
bool Plan::is_other_build(const PlanModule& p, const char* path, bool is_program) const noexcept {
  const char *first = text_ + p.path, *const last = first + p.path_bytes;
  if (is_program) {
    path = base_name(path);
    for (const char* at = first; at < last; ++at)
      if (*at == '/') first = at + 1;
  }
  const auto bytes = static_cast<std::size_t>(last - first);
  return strlen(path) == bytes && memcmp(first, path, bytes) == 0;
}

void Plan::refuse(const char* path) noexcept {
  refused_ = true;
  os::Line<768> message;
  message.text("mortise: affinity_plan=").text(path_).text(": made for another build of ").text(base_name(path));
  message.text("; make it again with mortise affinity --plan; running without it").flush();
}

std::uint32_t Plan::recognise(const Module& m) noexcept {
  std::uint8_t id[kBuildIdBytes];
  const std::size_t bytes = build_id_of(m, id, sizeof id);
  char own[512] = {};
  const char* path = m.path ? m.path : "";
  const bool is_program = !*path;
  if (is_program && os::syscall(SYS_readlink, "/proc/self/exe", own, sizeof own - 1) > 0) path = own;
  bool is_of_another = false;
  for (std::uint32_t n = 1; n <= module_count_; ++n) {
    const PlanModule& p = modules_[n];
    if (bytes && p.build_id_bytes == bytes && memcmp(p.build_id, id, bytes) == 0) return n;
    is_of_another |= is_other_build(p, path, is_program);
  }
  if (is_of_another) refuse(path);
  return 0;
}

const Plan::Loaded* Plan::loaded_at(std::uintptr_t address) noexcept {
  for (std::uint32_t n = 0; n < loaded_count_; ++n)
    if (address - loaded_[n].first < loaded_[n].last - loaded_[n].first) return &loaded_[n];
  const Module m = module_of(address);
  if (!m || loaded_count_ == kLoadedMax) return nullptr;
  loaded_[loaded_count_] = {m.first, m.last, m.bias, recognise(m)};
  return &loaded_[loaded_count_++];
}

bool Plan::hash_of(const std::uintptr_t* chain, unsigned length, std::uint32_t size_class, std::uint64_t& hash) noexcept {
  hash = size_class;
  for (unsigned n = 0; n < length; ++n) {
    const Loaded* const l = loaded_at(chain[n]);
    if (!l || !l->module) return false;
    hash = mix(mix(hash, l->module), chain[n] - l->bias);
  }
  return true;
}

void Plan::forget(std::uintptr_t first, std::uintptr_t last) noexcept {
  for (std::uint32_t n = 0; n < loaded_count_; ++n)
    if (loaded_[n].first < last && first < loaded_[n].last) loaded_[n--] = loaded_[--loaded_count_];
}

PlannedWay Plan::ask(const std::uintptr_t* chain, unsigned length, std::uint32_t size_class) noexcept {
  PlannedWay way{PlannedWay::Kind::unknown, false, kNoNode};
  std::uint64_t hash;
  if (!is_followed() || !hash_of(chain, length, size_class, hash) || refused_) return way;
  const Key* const k = find(hash);
  if (!k) return way;
  way.kind = k->node ? PlannedWay::Kind::node : PlannedWay::Kind::wrapper;
  if (k->node && planned_[k->node].pool) {
    way.has_own_pool = true;
    way.with = first_of_pool_[planned_[k->node].pool];
  }
  return way;
}

void Plan::made(NodeId id, const std::uintptr_t* chain, unsigned length, std::uint32_t size_class) noexcept {
  std::uint64_t hash;
  if (!is_followed() || !hash_of(chain, length, size_class, hash)) return;
  const Key* const k = find(hash);
  if (!k || !k->node) return;
  NodeId& first = first_of_pool_[planned_[k->node].pool];
  if (!first) first = id;
}

}  // namespace mortise::affinity
