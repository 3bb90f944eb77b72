// Statistics for readers: as JSON to a buffer, as text to a file descriptor, and for a reader in another process.
//
// That reader (`mortise stats PID`) needs nothing of this process: no signal, no thread, no page that is kept up to
// date. It loads this very library, finds the descriptor below in the other process, and lets `mortise_stats_peek` walk
// a copy of the other heap, which it fetches page by page while the walk touches it. So what is read is what the same
// code would have said inside.
#include "abi/json.hpp"
#include "abi/snapshot.hpp"
#include "mortise/os/console.hpp"

namespace mortise::abi {
namespace {

/// What a reader finds in another process. Its fields keep their places; `version` counts changes.
struct Descriptor {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bytes;
  std::uint64_t heap_bytes;
  Heap* heap;
  Events* events;
  char allocator[32];
  char library_version[32];
};

void write_classes(Json& json, const Usage& u) noexcept {
  json.open('[', "classes");
  for (unsigned c = 0; c < u.classes_max; ++c) {
    const ClassUsage& k = u.classes[c];
    if (!k.spans && !k.live && !k.cached && !k.waiting) continue;
    json.newline().open('{').number("class", c).number("block_bytes", k.block_bytes).number("live_blocks", k.live);
    json.number("cached_blocks", k.cached).number("waiting_blocks", k.waiting).number("spans", k.spans);
    json.number("span_bytes", k.span_bytes).close('}');
  }
  json.close(']');
}

void write_caches(Json& json, const Usage& u) noexcept {
  json.open('[', "caches");
  for (unsigned i = 0; i < u.caches_max; ++i) {
    if (!u.caches[i].blocks) continue;
    json.newline().open('{').number("index", i).number("blocks", u.caches[i].blocks);
    json.number("bytes", u.caches[i].bytes).close('}');
  }
  json.close(']');
}

}  // namespace

void write_usage(Json& json, const Usage& u) noexcept {
  json.number("mapped_bytes", u.mapped).number("live_bytes", u.live).number("large_bytes", u.large);
  json.number("large_blocks", u.large_count).number("cached_bytes", u.cached);
  json.number("dirty_bytes", u.dirty).number("purged_bytes", u.purged).number("bookkeeping_bytes", u.meta);
  if (u.limit) json.number("limit_bytes", u.limit);
  else json.null("limit_bytes");
  if (u.soft_limit) json.number("soft_limit_bytes", u.soft_limit);
  else json.null("soft_limit_bytes");
  json.number("refused", u.refused).newline();
  write_classes(json, u);
  json.newline();
  write_caches(json, u);
}

namespace {

struct Source {
  Heap& heap;
  Events& events;
  void* heaps;
  bool is_copy;  ///< of another process's: what the kernel knows of it is not ours to ask
};

std::size_t write_json(const Source& from, char* out, std::size_t capacity) noexcept {
  Snapshot snapshot(from.heap);
  const Usage& u = snapshot.usage;
  const std::size_t resident = from.is_copy ? Snapshot::kUnknown : resident_bytes(u.window, u.window_bytes);
  Json json(out, capacity);
  json.open('{').text("schema", "mortise.stats/1").text("allocator", Card::kName).text("version", MORTISE_VERSION);
  if (resident == Snapshot::kUnknown) json.newline().null("resident_bytes");
  else json.newline().number("resident_bytes", resident);
  json.number("window_start", address_of(u.window)).number("window_bytes", u.window_bytes);
  json.number("foreign_frees", from.events.foreign_frees.load(Order::relaxed));
  write_usage(json, u);
  if (from.heaps) write_heaps(json.newline(), from.heaps, from.is_copy);
  return json.close('}').finish();
}

Source own() noexcept { return {heap, events, heaps_here ? heaps_here() : nullptr, false}; }

}  // namespace

std::size_t write_own_json(char* out, std::size_t capacity) noexcept { return write_json(own(), out, capacity); }

void print_statistics(os::Output& out) noexcept {
  Snapshot snapshot(heap);
  const Usage& u = snapshot.usage;
  const std::size_t resident = resident_bytes(u.window, u.window_bytes);
  os::Line<1024> line;
  const auto row = [&](const char* what, std::size_t bytes) {
    line.text("mortise[").text(Card::kName).text("] ").text(what).number(bytes).flush(out);
  };
  row("mapped bytes          = ", u.mapped);
  if (resident != Snapshot::kUnknown) row("resident bytes        = ", resident);
  row("live bytes            = ", u.live);
  row("  in large blocks     = ", u.large);
  row("cached bytes          = ", u.cached);
  row("free, resident bytes  = ", u.dirty);
  row("free, purged bytes    = ", u.purged);
  row("bookkeeping bytes     = ", u.meta);
  if (u.limit) row("limit, bytes          = ", u.limit);
  if (u.soft_limit) row("soft limit, bytes     = ", u.soft_limit);
  if (u.refused) row("refused by the limit  = ", u.refused);
  row("foreign frees         = ", events.foreign_frees.load(Order::relaxed));
  if (u.grown) row("reserve exhausted     = ", u.grown);
  for (unsigned c = 0; c < u.classes_max; ++c) {
    const ClassUsage& k = u.classes[c];
    if (!k.spans) continue;
    line.text("mortise[").text(Card::kName).text("]   class ").number(k.block_bytes).text(" B: live=").number(k.live);
    line.text(" cached=").number(k.cached).text(" waiting=").number(k.waiting).text(" spans=").number(k.spans).flush(out);
  }
  for (unsigned i = 0; i < u.caches_max; ++i) {
    if (!u.caches[i].blocks) continue;
    line.text("mortise[").text(Card::kName).text("]   cache ").number(i).text(": blocks=").number(u.caches[i].blocks);
    line.text(" bytes=").number(u.caches[i].bytes).flush(out);
  }
}

void print_statistics_as_json(os::Output& out) noexcept {
  constexpr std::size_t kBytes = 256_KiB;
  auto* text = reinterpret_cast<char*>(os::map(kBytes));
  if (!text) return out.fail();
  const std::size_t length = write_own_json(text, kBytes - 1);
  text[length] = '\n';
  out.write(text, length + 1);
  os::unmap(reinterpret_cast<std::byte*>(text), kBytes);
}

}  // namespace mortise::abi

using namespace mortise;
using namespace mortise::abi;

extern "C" {

MORTISE_EXPORT extern const Descriptor mortise_descriptor;
constinit const Descriptor mortise_descriptor = {{'m', 'o', 'r', 't', 'i', 's', 'e', 0}, 1, sizeof(Descriptor), sizeof(abi::Heap), &heap,
                                                 &events, MORTISE_TEXT(MORTISE_ALLOCATOR), MORTISE_VERSION};

MORTISE_EXPORT std::size_t mortise_stats_json(char* out, std::size_t capacity) noexcept { return write_own_json(out, capacity); }

/// `there`, `seen` and `list` are a private copy of another process's heap, events and heaps, at the addresses that they
/// have there. As in the child of a fork, whoever held their locks is not here.
MORTISE_EXPORT std::size_t mortise_stats_peek(void* there, void* seen, void* list, char* out,
                                              std::size_t capacity) noexcept {
  abi::Heap& copy = *static_cast<abi::Heap*>(there);
  reset_below(copy);
  return write_json({copy, *static_cast<Events*>(seen), list, true}, out, capacity);
}

/// Where heaps that programs create are in this library, relative to the library; null where there are none.
MORTISE_EXPORT void* mortise_stats_heaps() noexcept { return heaps_here ? heaps_here() : nullptr; }

}  // extern "C"
