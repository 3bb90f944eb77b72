// Whether looking up pays: what the Observer is told of pools that grow, and of leases that are used up.
#include <bit>
#include <utility>

#include "affinity/observe/observer.hpp"

namespace mortise::affinity {

/// Pools that forward take nothing: what the heap below took for them all is divided as their objects are.
Growth Observer::growth_of(unsigned size_class, bool forwards) noexcept {
  const ClassUse& use = use_[size_class];
  std::uint32_t all = use.undivided, most = all;
  std::uint64_t objects = use.undivided_objects;
  NodeId leader = kNoNode;
  for (NodeId id = 1; id <= nodes_.last(); ++id) {
    const Node& n = nodes_[id];
    if (n.root != id || n.size_class != size_class) continue;
    all += n.grown;
    if (forwards ? n.looked_up > objects : n.grown > most) most = n.grown, objects = n.looked_up, leader = id;
  }
  if (forwards) all = use.below, most = static_cast<std::uint32_t>(std::uint64_t{all} * objects / use.objects);
  const auto handed = [&](std::uint64_t n) { return ClassUse::segments_of(n, size_class * kMinAlign); };
  return {.handed = handed(use.objects), .handed_to_leader = handed(objects), .all = all, .most = most, .leader = leader};
}

/// Whenever a group's own pool has 6, 24, 96, ... segments, what its objects hold is looked at: in the segment before the new one, which is
/// its own as extents double. A time is a number of segments that all pools had taken by then.
void Observer::grew(const Pool& pool, std::uint32_t segments, const std::byte* object) noexcept {
  constexpr std::size_t kSegmentBytes = 4096;
  Held held(lock_);
  segments_ += segments;
  if (!pool.tag) return void(use_[pool.size_class % kClasses].undivided += segments);
  Node& r = root(pool.tag);
  const std::uint32_t before = r.grown;
  r.grown += segments;
  r.grew_at = segments_;
  if (!before) r.looked_into_at = segments_;
  const auto is_mark = [](std::uint32_t n) { return n % 3 == 0 && std::has_single_bit(n / 3) && std::countr_zero(n) % 2 == 1; };
  if (segments != 1 || !is_mark(before + 1) || options_.mode != Mode::graph || !r.has_own_pool) return;
  if (pool.is_mixed || !object || !&pool_grew) return;
  pool_grew(view(r.id), (reinterpret_cast<std::uintptr_t>(object) & ~(kSegmentBytes - 1)) - kSegmentBytes, kSegmentBytes);
  root(pool.tag).looked_into_at = segments_;
}

void Observer::forwarded(const Pool& pool, const std::byte* object) noexcept {
  Held held(lock_);
  if (!spans_met_) spans_met_ = reinterpret_cast<SpansMet*>(analysis_memory(sizeof(SpansMet)));
  if (!spans_met_ || !spans_met_->is_new(reinterpret_cast<std::uintptr_t>(object))) return;
  use_[pool.size_class % kClasses].below += SpansMet::kSegments;
}

/// Whether a pool's objects come from another one from now on: a group's that come and go from the pool of the class, and from pools of
/// their own again those of groups that drew from there, when they begin to stay.
bool Observer::moves(Pool& pool, std::uint32_t leased) noexcept {
  ClassUse& use = use_[pool.size_class];
  if (pool.is_forwarding || !leased) return false;
  if (pool.tag) {
    Node& r = root(pool.tag);
    if (r.pool != &pool || !r.has_own_pool || r.is_planned) return false;
    if (!ClassUse::comes_and_goes(r.looked_up, r.grown, r.had, pool.stride(), r.trials)) return false;
    r.passes = true;
    r.trials += r.trials < ClassUse::kTrialsMax;
    fold_back(r.id);
    ++counts_.passing;
    return true;
  }
  if (!use.rest_stays(leased, pool.stride())) return false;
  const std::uint64_t before = counts_.staying;
  std::uint64_t looked_up = 0;
  for (NodeId id = 1; id <= nodes_.last(); ++id) {
    Node& n = nodes_[id];
    if (n.root != id || n.size_class != pool.size_class || !n.passes || n.has_own_pool) continue;
    n.passes = false;
    n.grown = n.had = 0, looked_up += std::exchange(n.looked_up, 0);
    n.was_sampled ? divide_from_size_class(id) : start_again(n);
    ++counts_.staying;
  }
  if (counts_.staying == before) return false;
  use.forget_rest(looked_up);
  return true;
}

/// A group of whose objects nobody has looked at one is counted like a new one.
void Observer::start_again(Node& n) noexcept {
  n.objects = kObjectsBeforeAnalysis;
  n.alternations = 0;
  n.noted = n.freed = 0;
  n.trials += !n.trials;
  n.pool = nullptr;
  new_epoch();
}

std::uint32_t Observer::renew(Pool& pool, std::uint32_t leased) noexcept {
  Held held(lock_);
  if (options_.mode != Mode::graph || !pool.size_class || pool.size_class >= kClasses || &pool == &forwarding_) return ClassUse::kLeaseMax;
  ClassUse& use = use_[pool.size_class];
  if (use.is_closed) return 0;  // by another thread, meanwhile
  counts_.leased += leased;
  use.objects += leased;
  (pool.tag ? root(pool.tag).looked_up : use.undivided_objects) += leased;
  if (use.is_mixed || !use.is_due(pool.stride()) || use.stays_open(growth_of(pool.size_class, pool.is_forwarding))) {
    if (moves(pool, leased)) return 1;
    const std::uint32_t most = leased ? pool.tag ? ClassUse::kLeaseMax : ClassUse::kLeaseOfRest : ClassUse::lease_of_trial(pool.stride());
    return use.lease() < most ? use.lease() : most;
  }
  ++counts_.closed;
  begin_anew(pool.size_class);
  return 0;
}

/// What the groups of a class took and were looked up for is of a time that is over. O(nodes).
void Observer::begin_anew(unsigned size_class) noexcept {
  for (NodeId id = 1; id <= nodes_.last(); ++id)
    if (Node& n = nodes_[id]; n.size_class == size_class) n.had += std::exchange(n.grown, 0), n.looked_up = 0;
}

bool Observer::missed(std::uint32_t size_class) noexcept {
  Held held(lock_);
  return options_.mode != Mode::graph || *options_.plan || ++use_[size_class].misses >= options_.misses_before_look;
}

bool Observer::passed(const CallSite& site, std::size_t size) noexcept {
  Held held(lock_);
  const auto size_class = static_cast<unsigned>((size + kMinAlign - 1) / kMinAlign);
  ClassUse& use = use_[size_class];
  if (options_.mode != Mode::graph) return false;
  if (!use.is_closed) return use.others_needed != 0;  // it was, and who had closed it came late to shut it
  CallChoice choice;
  if (use.leader) look_up(site, size, choice);
  if (!use.opens(choice.tag && root(choice.tag).id == root(use.leader).id)) return false;
  begin_anew(size_class);
  ++counts_.opened;
  return true;
}

}  // namespace mortise::affinity
