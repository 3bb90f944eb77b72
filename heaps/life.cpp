// Heaps come and go: creation, destruction, limits, fork.
//
// A heap's own state lies in a span of the store, whose number is its name in the descriptors of the spans it leases. Without
// the kernel's restartable sequences heaps have no caches: every call takes the lock of its size class. So no thread ever holds
// anything of a heap, and a heap may go while threads that used it stay, or stay when they are gone.
#include <errno.h>
#include <string.h>

#include <new>

#include "abi/fork_gate.hpp"
#include "abi/heap.hpp"
#include "heaps/heap.hpp"
#include "mortise/mortise.h"
#include "mortise/os/facts.hpp"
#include "mortise/sync/fork_attempt.hpp"

namespace mortise::abi {
constinit Heap heap{};
constinit Events events{};
/// An index beyond every cache's table: a stand-in for the kernel's area that no cache will take.
constinit thread_local ThreadRecord<Heap::Thread> thread_record{.area = {.index = os::kCpusMax, .section = 0}, .state = {}};
}  // namespace mortise::abi

std::size_t mortise::huge::AfterShareOfEachHeap::from_bytes() noexcept {
  const std::size_t of_each = heaps::registry.count.load(Order::relaxed) * kFromBytesOfEach;
  return of_each > kFromBytes ? of_each : kFromBytes;
}

namespace mortise::heaps {

constinit Registry registry{};

namespace {

constinit Atomic<bool> has_facts{false};
constinit os::Facts facts{};
constinit mo_heap* last_held = nullptr;  // by fork, which has the registry's lock

/// Calls f(heap) for each heap; under the registry's lock.
template <class F> void each(F&& f) noexcept {
  for (mo_heap* h = registry.first; h; h = h->next) f(h);
}

bool prepare() noexcept {
  if (!abi::prepare_thread()) return false;
  if (has_facts.load(Order::acquire)) return true;
  Held held(registry.lock);
  if (has_facts.load(Order::relaxed)) return true;
  facts = os::read_facts(&abi::thread_record.area);
  has_facts.store(true, Order::release);
  return true;
}

/// As much of it as there is room for, in whole characters of UTF-8.
void set_name(mo_heap* h, const char* name) noexcept {
  std::size_t n = strnlen(name, sizeof h->name - 1);
  if (name[n])
    while (n && (name[n] & 0xC0) == 0x80) --n;
  memcpy(h->name, name, n);
}
void enlist(mo_heap* h, const mo_heap_options& options) noexcept {
  if (options.name) set_name(h, options.name);
  Held held(registry.lock);
  h->next = registry.first;
  if (h->next) h->next->prev = h;
  registry.first = h;
  registry.count.fetch_add(1, Order::relaxed);
  if (!h->parent) return;
  h->next_sibling = h->parent->child;
  if (h->next_sibling) h->next_sibling->prev_sibling = h;
  h->parent->child = h;
}
void delist(mo_heap* h) noexcept {
  (h->prev ? h->prev->next : registry.first) = h->next;
  if (h->next) h->next->prev = h->prev;
  registry.count.fetch_sub(1, Order::relaxed);
  if (!h->parent) return;
  (h->prev_sibling ? h->prev_sibling->next_sibling : h->parent->child) = h->next_sibling;
  if (h->next_sibling) h->next_sibling->prev_sibling = h->prev_sibling;
}

mo_heap* create_in_store(const mo_heap_options& options) noexcept {
  Store::Thread t;
  const Block b = allocate_untouched(abi::heap, t, sizeof(SpanHeap));
  if (!b) return nullptr;
  auto* h = reinterpret_cast<SpanHeap*>(b.ptr);  // as all zeros (heaps.ready_as_zero); making it would touch all of it
  h->parent = options.parent;
  auto* parent = options.parent ? &static_cast<SpanHeap*>(options.parent)->lease() : nullptr;
  h->lease().bind(abi::heap, abi::heap.page_index().number_of(b.ptr) + 1, parent);
  if (options.limit) h->lease().set_limit_bytes(options.limit);
  h->stack.start(facts);
  return h;
}

mo_heap* create_in_memory(const mo_heap_options& options) noexcept {
  auto* const begin = static_cast<std::byte*>(options.memory);
  auto* const at = reinterpret_cast<std::byte*>(round_up(address_of(begin), alignof(ArenaHeap)));
  auto* h = ::new (static_cast<void*>(at)) ArenaHeap{};
  h->kind = mo_heap::Kind::range;
  h->range().bind(at + sizeof(ArenaHeap), begin + options.bytes);
  h->stack.start(facts);
  return h;
}

/// Whether a heap that was not destroyed lies in the program's memory: making another there would cut the list of all. O(heaps).
bool is_lived_in(const mo_heap_options& o) noexcept {
  bool found = false;
  Held held(registry.lock);
  each([&](mo_heap* h) { found |= address_of(h) - address_of(o.memory) < o.bytes; });
  return found;
}
/// Memory that does not run past the end of all addresses; a limit under which a heap could have a block.
bool makes_sense(const mo_heap_options& o) noexcept {
  if (o.memory) return o.bytes >= MO_HEAP_BYTES_MIN && o.bytes <= UINTPTR_MAX - address_of(o.memory) && !is_lived_in(o);
  return o.bytes == 0 && (o.limit == 0 || o.limit >= MO_HEAP_LIMIT_MIN);
}

void end(mo_heap* h) noexcept {
  delist(h);
  SpanHeap* const s = as_spans(h);
  h->kind = mo_heap::Kind::ended;
  if (s) {
    s->lease().give_back_all();
    Store::Thread t;
    abi::heap.release(t, abi::heap.measure(abi::heap.block_of(reinterpret_cast<std::byte*>(s))));
  }
}
bool is_listed(mo_heap* h) noexcept { return h->kind != mo_heap::Kind::ended && (h->prev ? h->prev->next : registry.first) == h; }
/// Those within it first, however deep they lie. O(heaps that end).
void destroy_locked(mo_heap* h) noexcept {
  MORTISE_CHECK(is_listed(h), Fault::double_free, Block(reinterpret_cast<std::byte*>(h), 0));
  for (mo_heap* at = h;;) {
    while (at->child) at = at->child;
    mo_heap* const parent = at->parent;
    const bool is_last = at == h;
    end(at);
    if (is_last) return;
    at = parent;
  }
}

}  // namespace
}  // namespace mortise::heaps

// All heaps, for fork. The list is looked at only where its lock was had.
void mortise::abi::lock_above() noexcept {
  if (!hold(heaps::registry.lock)) return;
  heaps::each([](mo_heap* h) {
    heaps::on_stack(h, [](auto& stack) { lock_below(stack); });
    heaps::last_held = h;
  });
}
void mortise::abi::unlock_above() noexcept {
  for (mo_heap*& h = heaps::last_held; h; h = h->prev) heaps::on_stack(h, [](auto& stack) { unlock_below(stack); });
  let_go(heaps::registry.lock);
}
void mortise::abi::reset_above() noexcept {
  heaps::each([](mo_heap* h) { heaps::on_stack(h, [](auto& stack) { reset_below(stack); }); });
  heaps::last_held = nullptr;
  heaps::registry.lock.reset();
}

using namespace mortise;
using namespace mortise::heaps;

extern "C" {

MORTISE_EXPORT mo_heap* mo_heap_create(const mo_heap_options* wanted) noexcept {
  const mo_heap_options options = wanted ? *wanted : mo_heap_options{};
  if (!makes_sense(options) || (options.parent && options.parent->kind != mo_heap::Kind::spans)) {
    errno = EINVAL;
    return nullptr;
  }
  mo_heap* h = !prepare() ? nullptr : options.memory ? create_in_memory(options) : create_in_store(options);
  if (!h) {
    errno = ENOMEM;
    return nullptr;
  }
  enlist(h, options);
  return h;
}

MORTISE_EXPORT void mo_heap_destroy(mo_heap* heap) noexcept {
  if (!heap) return;
  {
    Held held(registry.lock);
    destroy_locked(heap);
  }
  abi::note_release();
}

MORTISE_EXPORT void mo_heap_set_limit(mo_heap* heap, std::size_t bytes) noexcept {
  if (SpanHeap* s = as_spans(heap)) s->lease().set_limit_bytes(bytes ? bytes : kNoLimit);
  else as_arena(heap);  // its limit is its memory
}

MORTISE_EXPORT std::size_t mo_heap_trim(mo_heap* heap) noexcept {
  SpanHeap* s = as_spans(heap);
  if (!s) return as_arena(heap), 0;  // has no caches, and its memory is the program's
  SpanHeap::Stack::Thread t;
  const std::size_t before = s->lease().taken_bytes();
  trim_below(s->stack, t);
  abi::note_release();
  const std::size_t after = s->lease().taken_bytes();
  return after < before ? before - after : 0;
}

}  // extern "C"
