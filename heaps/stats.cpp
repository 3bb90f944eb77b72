// What heaps hold, for the program and for a reader in another process.
#include "abi/json.hpp"
#include "abi/snapshot.hpp"
#include "heaps/heap.hpp"
#include "mortise/mortise.h"

extern "C" [[gnu::weak]] std::size_t mortise_malloc_stats_json(char*, std::size_t) noexcept;

namespace mortise::heaps {
namespace {

void write_heap(abi::Json& json, mo_heap* h) noexcept {
  on_stack(h, [&](auto& stack) {
    abi::Snapshot snapshot(stack);
    json.newline().open('{').text("schema", "mortise.heap/1").text("name", h->name);
    json.text("kind", h->kind == mo_heap::Kind::spans ? "spans" : "memory of the program");
    json.number("address", address_of(h)).number("parent", address_of(h->parent));
    abi::write_usage(json, snapshot.usage);
    json.close('}');
  });
}

}  // namespace
}  // namespace mortise::heaps

namespace mortise::abi {

void write_heaps(Json& json, void* there, bool is_copy) noexcept {
  auto& list = *static_cast<heaps::Registry*>(there);
  if (is_copy) list.lock.reset();
  Held held(list.lock);
  json.open('[', "heaps");
  for (mo_heap* h = list.first; h; h = h->next) {
    if (is_copy) heaps::on_stack(h, [](auto& stack) { reset_below(stack); });
    heaps::write_heap(json, h);
  }
  json.close(']');
}
void* heaps_here() noexcept { return &heaps::registry; }

}  // namespace mortise::abi

using namespace mortise;
using namespace mortise::heaps;

extern "C" {

MORTISE_EXPORT void mo_heap_get_stats(mo_heap* heap, mo_heap_stats* stats) noexcept {
  Usage u;
  on_stack(heap, [&](auto& stack) { tell_below(stack, u); });
  *stats = {u.mapped, u.live, u.large, u.large_count, u.cached, u.meta, u.limit, u.refused};
}

MORTISE_EXPORT std::size_t mo_heap_stats_json(mo_heap* heap, char* out, std::size_t capacity) noexcept {
  abi::Json json(out, capacity);
  write_heap(json, heap);
  return json.finish();
}

MORTISE_EXPORT std::size_t mo_stats_json(char* out, std::size_t capacity) noexcept {
  return &mortise_malloc_stats_json ? mortise_malloc_stats_json(out, capacity) : 0;
}

}  // extern "C"
