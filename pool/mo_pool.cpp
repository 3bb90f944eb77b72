// The C interface of the pools, over BlockPool: libmortise_pool.so and libmortise_pool.a.
#include "mortise/pool.h"

#include <cstring>
#include <new>

#include "mortise/pool/block_pool.hpp"
#include "mortise/pool/checks.hpp"

using mortise::pools::BlockPool;
using mortise::pools::Taken;

struct mo_pool {
  BlockPool blocks;
  mortise::checked_pool checks;
  mo_pool_options options{};
  bool keeps = false;
  bool watches = false;  ///< something is to be done at a release: checks, or a hook
};

namespace {

/// Where the program called from.
#define MORTISE_CALLER __builtin_return_address(0)

void* begin(mo_pool* pool, Taken taken, const void* caller) noexcept {
  if (!taken.block) return nullptr;
  if (pool->keeps && taken.bare && pool->options.make && pool->options.make(taken.block, pool->options.context) != 0) {
    pool->blocks.release_bare(taken.block);
    return nullptr;
  }
  if (pool->options.checked) [[unlikely]]
    pool->checks.on_acquire(pool->blocks.slots(), taken.block, caller);
  return taken.block;
}

void give(mo_pool* pool, std::byte* block) noexcept {
  if (!pool->blocks.release_hit(block)) [[unlikely]]
    pool->blocks.release_slow(block);
}

/// Whether the pool may take `block` back; what is done first.
MORTISE_COLD bool watch_release(mo_pool* pool, void* block, const void* caller) noexcept {
  if (pool->options.checked && !pool->checks.may_release(pool->blocks.slots(), block, caller)) return false;
  if (pool->options.reset) pool->options.reset(block, pool->options.context);
  return true;
}

void destroy(mo_pool* pool, void* block) noexcept {
  if (pool->options.destroy) pool->options.destroy(block, pool->options.context);
}

constexpr std::size_t kRoom = (sizeof(mo_pool) + 65535) & ~std::size_t{65535};

}  // namespace

extern "C" {

MORTISE_EXPORT mo_pool* mo_pool_create(const mo_pool_options* options) {
  if (!options || !options->size || !options->maximum) return nullptr;
  std::byte* const room = mortise::os::map(kRoom);
  if (!room) return nullptr;
  auto* const pool = ::new (static_cast<void*>(room)) mo_pool;
  pool->options = *options;
  pool->keeps = options->make || options->destroy;
  pool->watches = options->checked || options->reset;
  mortise::pool_options inner;
  inner.maximum = options->maximum;
  inner.padded = !options->packed;
  inner.name = options->name ? options->name : "pool";
  inner.on_fault = options->on_fault;
  if (!pool->blocks.start(inner, options->size, options->align ? options->align : 16, pool->keeps) ||
      (options->checked && !pool->checks.start(inner, pool->blocks.slots()))) {
    pool->~mo_pool();
    mortise::os::unmap(room, kRoom);
    return nullptr;
  }
  if (options->prefill) mo_pool_prefill(pool, options->prefill);
  return pool;
}

MORTISE_EXPORT void mo_pool_destroy(mo_pool* pool) {
  if (!pool) return;
  mo_pool_report_leaks(pool);
  if (pool->keeps) pool->blocks.drain([pool](std::byte* block) { destroy(pool, block); });
  pool->~mo_pool();
  mortise::os::unmap(reinterpret_cast<std::byte*>(pool), kRoom);
}

MORTISE_EXPORT void* mo_pool_try_acquire(mo_pool* pool) {
  if (std::byte* const block = pool->blocks.acquire_hit()) [[likely]] {
    if (pool->options.checked) [[unlikely]]
      pool->checks.on_acquire(pool->blocks.slots(), block, MORTISE_CALLER);
    return block;
  }
  return begin(pool, pool->blocks.acquire_slow(), MORTISE_CALLER);
}

MORTISE_EXPORT void* mo_pool_acquire_for(mo_pool* pool, int64_t timeout_ns) {
  if (std::byte* const block = pool->blocks.acquire_hit()) [[likely]]
    return begin(pool, {block, false}, MORTISE_CALLER);
  return begin(pool, pool->blocks.acquire_wait(timeout_ns), MORTISE_CALLER);
}

MORTISE_EXPORT void mo_pool_release(mo_pool* pool, void* block) {
  if (!block) [[unlikely]]
    return;
  if (pool->watches && !watch_release(pool, block, MORTISE_CALLER)) [[unlikely]]
    return;
  give(pool, static_cast<std::byte*>(block));
}

MORTISE_EXPORT uint32_t mo_pool_index_of(const mo_pool* pool, const void* block) {
  const mortise::pools::Slots& slots = pool->blocks.slots();
  return slots.holds(block) ? slots.index_of(block) : MO_POOL_NO_INDEX;
}
MORTISE_EXPORT void* mo_pool_at(const mo_pool* pool, uint32_t index) {
  const mortise::pools::Slots& slots = pool->blocks.slots();
  return index < slots.maximum() ? slots.at(index) : nullptr;
}
MORTISE_EXPORT int mo_pool_owns(const mo_pool* pool, const void* block) { return pool->blocks.slots().holds(block); }

MORTISE_EXPORT uint32_t mo_pool_prefill(mo_pool* pool, uint32_t n) {
  while (pool->blocks.existing() < n) {
    std::byte* const block = pool->blocks.take_bare();
    if (!block) break;
    if (pool->keeps && pool->options.make && pool->options.make(block, pool->options.context) != 0) {
      pool->blocks.release_bare(block);
      break;
    }
    pool->blocks.stock(block);
  }
  return pool->blocks.existing();
}

MORTISE_EXPORT size_t mo_pool_trim(mo_pool* pool, uint32_t keep) {
  return pool->blocks.trim(keep, [pool](std::byte* block) { destroy(pool, block); });
}

MORTISE_EXPORT void mo_pool_statistics_of(mo_pool* pool, mo_pool_statistics* statistics) {
  const mortise::pool_statistics s = pool->blocks.statistics();
  mo_pool_statistics out{};
  out.struct_bytes = statistics->struct_bytes < sizeof out ? statistics->struct_bytes : sizeof out;
  out.maximum = s.maximum, out.created = s.created, out.in_use = s.in_use, out.idle = s.idle, out.bare = s.bare;
  out.high_water = s.high_water, out.capacity_slack = s.capacity_slack;
  out.refills = s.refills, out.spills = s.spills, out.failures = s.failures, out.steals = s.steals;
  out.contention = s.contention, out.trims = s.trims;
  out.waits = s.waits, out.timeouts = s.timeouts, out.wait_ns = s.wait_ns, out.wait_ns_max = s.wait_ns_max;
  static_assert(MO_POOL_WAIT_BUCKETS == mortise::pool_statistics::kWaitBuckets);
  for (unsigned i = 0; i < MO_POOL_WAIT_BUCKETS; ++i) out.wait_histogram[i] = s.wait_histogram[i];
  std::memcpy(statistics, &out, out.struct_bytes);
}

MORTISE_EXPORT uint32_t mo_pool_report_leaks(mo_pool* pool) {
  if (!pool->options.checked) return 0;
  return pool->checks.report_leaks(pool->blocks.slots(), pool->blocks.created(),
                                   [](const char* text) { mortise::os::Line<1024>{}.text(text).flush(); });
}

}  // extern "C"
