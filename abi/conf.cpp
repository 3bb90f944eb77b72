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
    const std::uint64_t share = n <= 100 ? (group == os::kNoGroupLimit ? os::memory_of_machine() : group) / 100 * n : 0;
    return share && (value = share);
  }
  constexpr char kUnits[] = "KMGT";
  const char* unit = i < t.length ? static_cast<const char*>(memchr(kUnits, t.at[i], 4)) : kUnits;
  if (!unit) return false;
  const unsigned shift = i < t.length ? 10 * static_cast<unsigned>(unit - kUnits + 1) : 0;
  if (n << shift >> shift != n) return false;
  return value = n << shift, true;
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

/// The path of a file that is written to, as it was given: each %p stands for the process that writes, be it the child of a fork.
bool keep(Text t, char (&path)[256]) noexcept {
  char expanded[256];
  if (!parse(t, expanded)) return false;
  memcpy(path, t.at, t.length);
  path[t.length] = 0;
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
  if (!os::cpus_are_there(text)) {
    os::Line<> line;
    line.text("mortise[").text(Card::kName).text("] warning: setting 'nodes=").text(text);
    line.text("' names CPUs that this machine has not").flush();
  }
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

/// On one line, and not without end.
os::Line<>& put(os::Line<>& line, Text text) noexcept {
  for (std::size_t i = 0; i < text.length && i < 64; ++i) line.put(static_cast<unsigned char>(text.at[i]) < ' ' ? '?' : text.at[i]);
  return line;
}

const char* nearest_to(Text key) noexcept {
  const char* nearest = kKeys[0];
  for (const char* k : kKeys)
    if (distance(key, k) < distance(key, nearest)) nearest = k;
  return nearest;
}

void warn_unknown(Text key) noexcept {
  const char* const nearest = nearest_to(key);
  os::Line<> line;
  line.text("mortise[").text(Card::kName).text("] warning: unknown setting '");
  put(line, key);
  const bool is_near = distance(key, nearest) <= std::min<std::size_t>(key.length + 2, 24) / 3;  // a slip of the finger, not another word
  if (memchr(key.at, ':', key.length)) line.text("' is ignored; a setting is KEY=VALUE").flush();  // as jemalloc has them
  else if (is_near) line.text("' is ignored; did you mean '").text(nearest).text("'?").flush();
  else line.text("' is ignored; mortise.conf(7) lists those that there are").flush();
}

/// Of MORTISE_<KEY> that is none, but nearly one. Variables with other words are the command line's own, or somebody else's.
void warn_variable(const char* word) noexcept {
  char small[24];
  std::size_t n = 0;
  bool is_large = true;
  for (; word[n] && word[n] != '='; ++n) {
    if (n == sizeof small) return;
    is_large &= word[n] < 'a' || word[n] > 'z';
    small[n] = word[n] >= 'A' && word[n] <= 'Z' ? static_cast<char>(word[n] - 'A' + 'a') : word[n];
  }
  const Text key{small, n};
  const char* const nearest = nearest_to(key);
  if ((is_large && is_known(key)) || distance(key, nearest) > (n < 8 ? 1 : 2)) return;
  os::Line<> line;
  line.text("mortise[").text(Card::kName).text("] warning: variable 'MORTISE_");
  put(line, {word, n}).text("' is ignored; did you mean 'MORTISE_");
  for (const char* c = nearest; *c; ++c) line.put(*c >= 'a' && *c <= 'z' ? static_cast<char>(*c - 'a' + 'A') : *c);
  line.text("'?").flush();
}

void warn_value(Text key, Text value, const char* expected) noexcept {
  os::Line<> line;
  line.text("mortise[").text(Card::kName).text("] warning: setting '");
  put(put(line, key).text("="), value).text("' is ignored; it takes ").text(expected).flush();
}

// What a setting takes, where it was not that; null where it was taken.

const char* take(Text value, bool& to) noexcept { return parse(value, to) ? nullptr : "0 or 1"; }
const char* take(Text value, char (&to)[256]) noexcept { return parse(value, to) ? nullptr : "a path of at most 200 characters"; }
const char* take_output(Text value, char (&to)[256]) noexcept { return keep(value, to) ? nullptr : "a path of at most 200 characters"; }
const char* take_limit(Text value, std::uint64_t& to) noexcept {
  return parse_bytes(value, to) ? nullptr : "bytes such as 100M or 2G, a share such as 90%, or none";
}
const char* take_soft_limit(Text value) noexcept {
  if (!Yields<Heap>) return "an allocator that caches spans, such as hslab";
  const char* const expected = take_limit(value, settings.soft_limit);
  settings.has_soft_limit |= !expected;
  return expected;
}
const char* take_profile(Text value) noexcept {
  return Profiles<Heap> ? take_output(value, settings.profile) : "an allocator that samples: hslab_profiled";
}
const char* take_sample(Text value) noexcept {
  if (!Profiles<Heap>) return "an allocator that samples: hslab_profiled";
  const bool is_share = value.length && value.at[value.length - 1] == '%';
  std::uint64_t bytes;
  if (is_share || !parse_bytes(value, bytes) || !bytes || bytes > 1_TiB) return "bytes such as 512K, up to 1T; 1: every allocation";
  settings.sample_bytes = bytes;
  return nullptr;
}
const char* take_huge(Text value) noexcept {
  if (value.is("never")) settings.huge = HugePages::never;
  else if (value.is("madvise")) settings.huge = HugePages::madvise;
  else if (value.is("auto")) settings.huge = HugePages::automatic;
  else return "never, madvise or auto";
  return nullptr;
}
const char* take_nodes(Text value) noexcept {
  return parse_nodes(value, settings) ? nullptr
                                      : "auto, off, or the CPUs of each of at most 8 nodes such as 0-3+8;4-7, each CPU once";
}
const char* take_purge(Text value) noexcept {
  std::int64_t ms;
  if (!parse(value, ms) || ms < -1) return "milliseconds, or -1 for never";
  settings.purge_ms = ms;
  return nullptr;
}
const char* take_stats(Text value) noexcept {
  using enum Settings::AtExit;
  if (!value.is("none") && !value.is("exit") && !value.is("json")) return "none, exit or json";
  settings.stats_at_exit = value.is("none") ? nothing : value.is("exit") ? text : json;
  return nullptr;
}
const char* take_on_fault(Text value) noexcept {
  if (!value.is("abort") && !value.is("report")) return "abort or report";
  settings.goes_on = value.is("report");
  return nullptr;
}

const char* take_reserve(Text key, Text value) noexcept {
  Reserve& r = settings.reserve;
  if (!Reserves<Heap>) return "an allocator with a reserve, such as wfslab";
  if (key.is("refill_ahead")) return take(value, settings.refill_ahead);
  if (key.is("reserve_mb")) {
    std::int64_t n;
    if (!parse(value, n) || n < 0) return "mebibytes";
    r.bytes = static_cast<std::size_t>(n) << 20;
  } else if (key.is("prefault")) {
    if (!value.is("0") && !value.is("1") && !value.is("lock")) return "0, 1 or lock";
    r.prefault = !value.is("0"), r.lock = value.is("lock");
  } else {
    if (!value.is("grow") && !value.is("fail")) return "grow or fail";
    r.on_exhausted = value.is("grow") ? OnExhausted::grow : OnExhausted::fail;
  }
  return nullptr;
}

/// For a key that there is.
const char* take(Text key, Text value) noexcept {
  if (key.is("purge_ms")) return take_purge(value);
  if (key.is("stats")) return take_stats(value);
  if (key.is("stats_file")) return take_output(value, settings.stats_file);
  if (key.is("verbose")) return take(value, settings.verbose);
  if (key.is("only_self")) return take(value, settings.only_self);
  if (key.is("inspect")) return take(value, settings.inspect);
  if (key.is("reserve_mb") || key.is("prefault") || key.is("on_exhausted") || key.is("refill_ahead")) return take_reserve(key, value);
  if (key.is("on_fault")) return take_on_fault(value);
  if (key.is("report_file")) return take_output(value, settings.report_file);
  if (key.is("exceptions")) return take(value, settings.exceptions);
  if (key.is("limit")) return take_limit(value, settings.limit);
  if (key.is("soft_limit")) return take_soft_limit(value);
  if (key.is("profile")) return take_profile(value);
  if (key.is("sample_bytes")) return take_sample(value);
  if (key.is("huge")) return take_huge(value);
  if (key.is("nodes")) return take_nodes(value);
  return AffinitySettings<Heap>::take(key, value);
}

void apply(Text key, Text value) noexcept {
  if (!is_known(key)) return warn_unknown(key);
  if (const char* const expected = take(key, value)) warn_value(key, value, expected);
}

void apply_list(const char* list) noexcept {
  while (*list) {
    for (; *list == ' '; ++list) {}
    const std::size_t length = strcspn(list, ",");
    const std::size_t name = strcspn(list, "=,");
    if (name < length) apply({list, name}, {list + name + 1, length - name - 1});
    else if (length) apply({list, length}, {list + length, 0});
    list += length;
    if (*list) ++list;
  }
}

}  // namespace

PathNow::PathNow(const char* setting) noexcept {
  if (!parse({setting, strlen(setting)}, text)) text[0] = 0;
}

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
  for (char** entry = environment; entry && *entry; ++entry)
    if (strncmp(*entry, "MORTISE_", 8) == 0) warn_variable(*entry + 8);
}

}  // namespace mortise::abi
