// The run-time half's side of the seam.
#include "affinity/seam.hpp"

#include <utility>

#include "affinity/observe/observer.hpp"

namespace mortise::affinity {

extern Observer* the_observer;

NodeId node_of(std::uintptr_t address) noexcept {
  if (!the_observer) return kNoNode;
  if (const PooledObject o = the_observer->pooled(address); o.pool) return o.pool->today()->tag;
  return the_observer->early().find(address).node;
}

std::uintptr_t object_of(std::uintptr_t address) noexcept {
  if (!the_observer) return 0;
  if (const PooledObject o = the_observer->pooled(address); o.pool) return reinterpret_cast<std::uintptr_t>(o.start);
  const EarlyObjects::Place place = the_observer->early().find(address);
  return place.node ? (address / kMinAlign - place.offset) * kMinAlign : 0;
}

NodeView view(NodeId id) noexcept { return the_observer ? the_observer->view(id) : NodeView{}; }
std::uintptr_t function_of(NodeId id) noexcept { return the_observer ? the_observer->function_of(id) : 0; }
std::uint64_t looked_up() noexcept { return the_observer ? the_observer->looked_up() : 0; }
NodeId last_node() noexcept { return the_observer ? the_observer->last_node() : kNoNode; }
void unite(NodeId a, NodeId b, Why why) noexcept {
  if (the_observer) the_observer->unite(a, b, why);
}
void divide_from_size_class(NodeId id) noexcept {
  if (the_observer) the_observer->divide_from_size_class(id);
}
void fold_back(NodeId id) noexcept {
  if (the_observer) the_observer->fold_back(id);
}

void survey_pools(Fullness* row_of_node, NodeId nodes) noexcept {
  struct Rows {
    Fullness* row;
    NodeId count;
  } rows{row_of_node, nodes};
  const auto add = [](void* context, Pool& pool, std::uint32_t live, std::uint32_t room) noexcept {
    const Rows& r = *static_cast<const Rows*>(context);
    if (pool.tag == kNoNode || pool.tag >= r.count || pool.successor.load(Order::acquire)) return;
    Fullness& f = r.row[pool.tag];
    ++f.segments, f.live += live, f.room += room;
  };
  if (the_observer) the_observer->survey_pools(&rows, add);
}

NodeView Observer::view(NodeId id) noexcept {
  const Node* const n = node(id);
  if (!n) return {};
  const Node& r = root(id);
  return {.id = id,
          .size_class = n->size_class,
          .chain_length = n->chain_length,
          .chain = n->chain,
          .objects = n->objects,
          .previous = n->previous,
          .alternations = n->alternations,
          .pool = r.pool ? r.id : kNoNode,
          .has_own_pool = r.has_own_pool,
          .grew_at = r.grew_at,
          .looked_into_at = r.looked_into_at};
}

std::uintptr_t Observer::function_of(NodeId id) noexcept {
  if (!id || id > nodes_.last()) return 0;
  const std::uintptr_t address = nodes_[id].chain[nodes_[id].chain_length - 1];
  const auto number = callers_by_address_.find(Index::hash(address), [&](std::uint32_t c) { return callers_[c].address == address; });
  return number ? callers_[number].frame.function.first : 0;
}

Mixing mixing() noexcept { return the_observer ? the_observer->options().mixing : Mixing::off; }

/// A class's pool serves other nodes too: who leaves it is told by a new epoch, after which every thread asks again.
void Observer::unite(NodeId a, NodeId b, Why why) noexcept {
  if (!node(a) || !node(b)) return;
  Node &to = root(a), &from = root(b);
  if (&to == &from) return;
  if (to.size_class != from.size_class || is_mixed(to) || is_mixed(from)) {
    if (mix(to, from)) nodes_[b].why = why;
    return;
  }
  from.root = to.id;
  if (!to.grown) to.looked_into_at = from.looked_into_at;
  if (to.grew_at < from.grew_at) to.grew_at = from.grew_at;
  to.grown += std::exchange(from.grown, 0);
  to.looked_up += std::exchange(from.looked_up, 0);
  nodes_[b].why = why;
  if (from.has_own_pool && from.pool) {
    if (to.has_own_pool && to.pool) {
      from.pool->successor.store(to.pool, Order::release);
    } else {
      if (to.pool) new_epoch();
      to.pool = from.pool;
      to.had = from.had;
      to.pool->tag = to.id;
    }
  } else if (from.pool && to.has_own_pool) {
    if (!to.pool) give_pool(to);
    new_epoch();
  } else if (!to.pool) {
    to.pool = from.pool;
  }
  to.has_own_pool |= from.has_own_pool;
}

/// Every thread asks again; what the two had pools for so far stays there until it is released.
bool Observer::mix(Node& to, Node& from) noexcept {
  Pool* const shared = is_mixed(to) ? to.pool : is_mixed(from) ? from.pool : make_mixed_pool();
  if (options_.mixing == Mixing::off || !shared) return false;
  if (is_mixed(from) && from.pool != shared) from.pool->successor.store(shared, Order::release);
  use_[to.size_class].is_mixed = use_[from.size_class].is_mixed = true;
  from.root = to.id;
  if (to.grew_at < from.grew_at) to.grew_at = from.grew_at;
  to.pool = shared;
  to.has_own_pool = true;
  shared->tag = to.id;
  new_epoch();
  return true;
}

void Observer::divide_from_size_class(NodeId id) noexcept {
  if (!node(id)) return;
  Node& r = root(id);
  if (r.has_own_pool) return;
  if (!r.pool) return void(r.has_own_pool = true);
  Pool* const own = make_pool(r.size_class, r.id);
  if (!own) return;
  r.has_own_pool = true;
  r.pool = own;
  new_epoch();
}

void Observer::fold_back(NodeId id) noexcept {
  if (!node(id)) return;
  Node& r = root(id);
  if (!r.has_own_pool || is_mixed(r)) return;  // of several sizes: no class's pool serves them
  r.has_own_pool = false;
  if (!r.pool) return;
  Pool* const own = r.pool;
  r.pool = class_pool(r.size_class);
  own->successor.store(r.pool, Order::release);
}

}  // namespace mortise::affinity
