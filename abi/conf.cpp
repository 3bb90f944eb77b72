// MORTISE_CONF="key=value,key=value" and MORTISE_<KEY>=value. The environment is ignored in set-uid programs. An
// unknown key or a value that does not parse gives one warning line and changes nothing; a program never ends because
// of its settings.
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>

#include "abi/affinity.hpp"
#include "abi/heap.hpp"
#include "mortise/os/console.hpp"
#include "mortise/os/control_group.hpp"

namespace mortise::abi {

constinit Settings settings{};

namespace {

struct Text {
  const char* at;
  std::size_t length;
  bool is(const char* s) const noexcept { return strlen(s) == length && memcmp(at, s, length) == 0; }
};

bool parse(Text t, std::int64_t& value) noexcept {
  const bool negative = t.length && *t.at == '-';
  std::size_t i = negative;
  std::int64_t n = 0;
  for (; i < t.length && t.at[i] >= '0' && t.at[i] <= '9' && n < 1'000'000'000; ++i) n = n * 10 + (t.at[i] - '0');
  if (i != t.length || t.length == std::size_t{negative}) return false;
  value = negative ? -n : n;
  return true;
}
bool parse(Text t, bool& value) noexcept {
  if (!t.is("0") && !t.is("1")) return false;
  value = t.is("1");
  return true;
}

/// Bytes with K, M, G or T behind them; or a share, with %, of what the control group allows, else of the machine's
/// memory; or none, which is 0.
bool parse_bytes(Text t, std::uint64_t& value) noexcept {
  if (t.is("none")) return value = 0, true;
  std::uint64_t n = 0;
  std::size_t i = 0;
  for (; i < t.length && t.at[i] >= '0' && t.at[i] <= '9'; ++i)
    if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, t.at[i] - '0', &n)) return false;
  if (!i || !n || t.length - i > 1) return false;
  if (i < t.length && t.at[i] == '%') {
    const std::uint64_t group = os::memory_in_group();
    value = (group == os::kNoGroupLimit ? os::memory_of_machine() : group) / 100 * n;
    return n <= 100 && value;
  }
  constexpr char kUnits[] = "KMGT";
  const char* unit = i < t.length ? static_cast<const char*>(memchr(kUnits, t.at[i], 4)) : kUnits;
  if (!unit) return false;
  const unsigned shift = i < t.length ? 10 * static_cast<unsigned>(unit - kUnits + 1) : 0;
  value = n << shift;
  return value >> shift == n;
}

/// A path; each %p in it stands for the process id.
bool parse(Text t, char (&path)[256]) noexcept {
  if (!t.length || t.length > 200) return false;
  os::Line<sizeof path> line;
  for (std::size_t i = 0; i < t.length; ++i) {
    if (t.at[i] != '%' || i + 1 == t.length || t.at[i + 1] != 'p') {
      line.put(t.at[i]);
    } else {
      line.number(static_cast<std::uint64_t>(::getpid()));
      ++i;
    }
  }
  if (line.length() >= sizeof path) return false;
  memcpy(path, line.data(), line.length());
  path[line.length()] = 0;
  return true;
}

/// The machine's nodes, none, or each one's CPUs.
bool parse_nodes(Text t, Settings& s) noexcept {
  using Nodes = Settings::Nodes;
  if (t.is("auto") || t.is("off")) return s.which_nodes = t.is("off") ? Nodes::off : Nodes::machine, true;
  char text[512];
  os::NodeMap map;
  if (t.length >= sizeof text) return false;
  memcpy(text, t.at, t.length);
  text[t.length] = 0;
  if (!os::parse_nodes(text, map)) return false;
  s.nodes = map;
  s.which_nodes = Nodes::named;
  return true;
}

/// How many single-letter changes lead from one word to the other; words are short.
unsigned distance(Text a, const char* b) noexcept {
  constexpr std::size_t kMax = 24;
  const std::size_t n = strlen(b);
  if (a.length > kMax || n > kMax) return kMax;
  unsigned row[kMax + 1];
  for (std::size_t j = 0; j <= n; ++j) row[j] = static_cast<unsigned>(j);
  for (std::size_t i = 1; i <= a.length; ++i) {
    unsigned diagonal = row[0]++;
    for (std::size_t j = 1; j <= n; ++j) {
      const unsigned above = row[j];
      const unsigned change = diagonal + (a.at[i - 1] != b[j - 1]);
      row[j] = std::min({change, above + 1, row[j - 1] + 1});
      diagonal = above;
    }
  }
  return row[n];
}

constexpr const char* kKeys[] = {
#define X(name, standard) #name,
#include "keys.inc"
#undef X
};

bool is_known(Text key) noexcept {
  for (const char* k : kKeys)
    if (key.is(k)) return true;
  return false;
}

void warn_unknown(Text key) noexcept {
  const char* nearest = kKeys[0];
  for (const char* k : kKeys)
    if (distance(key, k) < distance(key, nearest)) nearest = k;
  os::Line<> line;
  line.text("mortise[").text(Card::kName).text("] warning: unknown setting '");
  for (std::size_t i = 0; i < key.length && i < 64; ++i) line.put(key.at[i]);
  const bool is_near = distance(key, nearest) <= std::min<std::size_t>(key.length + 2, 24) / 3;  // a slip of the finger, not another word
  if (is_near) line.text("' is ignored; did you mean '").text(nearest).text("'?").flush();
  else line.text("' is ignored; mortise.conf(7) lists those that there are").flush();
}

void warn_value(const char* key, const char* expected) noexcept {
  os::Line<> line;
  line.text("mortise[")
      .text(Card::kName)
      .text("] warning: setting '")
      .text(key)
      .text("' is ignored; it takes ")
      .text(expected)
      .flush();
}

constexpr char kBytesText[] = "bytes such as 100M or 2G, a share such as 90%, or none";

/// Limits, huge pages, the profile; false when the key is none of theirs.
bool apply_to_memory(Text key, Text value) noexcept {
  if (key.is("limit")) {
    if (!parse_bytes(value, settings.limit)) warn_value("limit", kBytesText);
  } else if (key.is("soft_limit")) {
    if (!parse_bytes(value, settings.soft_limit)) warn_value("soft_limit", kBytesText);
    else settings.has_soft_limit = true;
  } else if (key.is("profile")) {
    if (!Profiles<Heap>) warn_value("profile", "an allocator that samples: hslab_profiled");
    else if (!parse(value, settings.profile)) warn_value("profile", "a path of at most 200 characters");
  } else if (key.is("sample_bytes")) {
    if (!parse_bytes(value, settings.sample_bytes) || !settings.sample_bytes)
      warn_value("sample_bytes", "bytes such as 512K; 1: every allocation");
  } else if (key.is("huge")) {
    if (value.is("never")) settings.huge = HugePages::never;
    else if (value.is("madvise")) settings.huge = HugePages::madvise;
    else if (value.is("auto")) settings.huge = HugePages::automatic;
    else warn_value("huge", "never, madvise or auto");
  } else if (key.is("nodes")) {
    if (!parse_nodes(value, settings))
      warn_value("nodes", "auto, off, or the CPUs of each of at most 8 nodes such as 0-3+8;4-7, each CPU once");
  } else {
    return false;
  }
  return true;
}

void apply(Text key, Text value) noexcept {
  if (key.is("purge_ms")) {
    std::int64_t ms;
    if (parse(value, ms) && ms >= -1) settings.purge_ms = ms;
    else warn_value("purge_ms", "milliseconds, or -1 for never");
  } else if (key.is("stats")) {
    using enum Settings::AtExit;
    if (value.is("none") || value.is("exit") || value.is("json"))
      settings.stats_at_exit = value.is("none") ? nothing : value.is("exit") ? text : json;
    else warn_value("stats", "none, exit or json");
  } else if (key.is("stats_file")) {
    if (!parse(value, settings.stats_file)) warn_value("stats_file", "a path of at most 200 characters");
  } else if (key.is("verbose")) {
    if (!parse(value, settings.verbose)) warn_value("verbose", "0 or 1");
  } else if (key.is("only_self")) {
    if (!parse(value, settings.only_self)) warn_value("only_self", "0 or 1");
  } else if (key.is("inspect")) {
    if (!parse(value, settings.inspect)) warn_value("inspect", "0 or 1");
  } else if (key.is("reserve_mb")) {
    std::int64_t n;
    if (parse(value, n) && n >= 0) settings.reserve.bytes = static_cast<std::size_t>(n) << 20;
    else warn_value("reserve_mb", "mebibytes");
  } else if (key.is("prefault")) {
    if (value.is("0") || value.is("1") || value.is("lock"))
      settings.reserve.prefault = !value.is("0"), settings.reserve.lock = value.is("lock");
    else warn_value("prefault", "0, 1 or lock");
  } else if (key.is("on_exhausted")) {
    if (value.is("grow") || value.is("fail"))
      settings.reserve.on_exhausted = value.is("grow") ? OnExhausted::grow : OnExhausted::fail;
    else warn_value("on_exhausted", "grow or fail");
  } else if (key.is("refill_ahead")) {
    if (!parse(value, settings.refill_ahead)) warn_value("refill_ahead", "0 or 1");
  } else if (key.length > 9 && memcmp(key.at, "affinity_", 9) == 0 && is_known(key)) {
    AffinitySettings<Heap>::apply(key, value, warn_value);
  } else if (key.is("on_fault")) {
    if (value.is("abort") || value.is("report")) settings.goes_on = value.is("report");
    else warn_value("on_fault", "abort or report");
  } else if (key.is("report_file")) {
    if (!parse(value, settings.report_file)) warn_value("report_file", "a path of at most 200 characters");
  } else if (key.is("exceptions")) {
    if (!parse(value, settings.exceptions)) warn_value("exceptions", "a path of at most 200 characters");
  } else if (!apply_to_memory(key, value)) {
    warn_unknown(key);
  }
}

void apply_list(const char* list) noexcept {
  while (*list) {
    const std::size_t length = strcspn(list, ",");
    const std::size_t name = strcspn(list, "=,");
    if (name < length) apply({list, name}, {list + name + 1, length - name - 1});
    else if (length) apply({list, length}, {list + length, 0});
    list += length;
    if (*list) ++list;
  }
}

}  // namespace

char* variable(char** environment, const char* name) noexcept {
  const std::size_t length = strlen(name);
  for (; environment && *environment; ++environment)
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return *environment + length + 1;
  return nullptr;
}

void read_settings(char** environment) noexcept {
  if (::getauxval(AT_SECURE)) return;
  if (const char* list = variable(environment, "MORTISE_CONF")) apply_list(list);
#define X(key, name) \
  if (const char* value = variable(environment, "MORTISE_" #name)) apply({#key, strlen(#key)}, {value, strlen(value)});
#include "variables.inc"
#undef X
}

}  // namespace mortise::abi
