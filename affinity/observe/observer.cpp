#include "affinity/observe/observer.hpp"

#include <string.h>

extern "C" void* __libc_stack_end;

namespace mortise::affinity {

/// The seam's functions are free functions, as the analysis knows of no layer; this is whom they ask. There is one observer in
/// a process that defines malloc.
constinit Observer* the_observer = nullptr;

void Observer::configure(const Options& options) noexcept {
  Held held(lock_);
  options_ = options;
  if (options_.object_bytes_max >= kClasses * kMinAlign) options_.object_bytes_max = (kClasses - 1) * kMinAlign;
  forwarding_.is_forwarding = true;
  forwarding_.size_class = 1;
  forwarding_.id = ++pools_;
  the_observer = this;
  if (*options_.plan && &read_plan) read_plan(options_.plan);
  if (options_.samples_per_second && &start_profile) start_profile(options_.samples_per_second);
}

std::uintptr_t Observer::stack_end() noexcept {
  const auto own = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto first = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
  // A thread's block lies at the end of its stack; the first thread's is made by the loader, elsewhere.
  constexpr std::uintptr_t kStackMax = std::uintptr_t{1} << 30;
  return own > here && own - here < kStackMax && !(first > here && first - here < own - here) ? own : first;
}

PooledObject Observer::pooled(std::uintptr_t address) const noexcept {
  return locate_ ? locate_(layer_, reinterpret_cast<const std::byte*>(address)) : PooledObject{};
}

// -- ways

Way* Observer::way_of(CallKey key) noexcept {
  const auto number = ways_by_key_.find(Index::hash(key), [&](std::uint32_t w) { return ways_[w].key == key; });
  if (number) return &ways_[number];
  const std::uint32_t fresh = idle_ways_ ? idle_ways_ : ways_.add();
  if (!fresh) return nullptr;
  if (idle_ways_) idle_ways_ = ways_[fresh].caller;
  ways_[fresh] = {.key = key};
  const auto rehash = [&](std::uint32_t w) { return Index::hash(ways_[w].key); };
  return ways_by_key_.add(Index::hash(key), fresh, rehash) ? &ways_[fresh] : nullptr;
}

void Observer::choose(const CallSite& site, std::size_t size, CallChoice& choice) noexcept {
  Held held(lock_);
  look_up(site, size, choice);
}

void Observer::look_up(const CallSite& site, std::size_t size, CallChoice& choice) noexcept {
  ++counts_.calls;
  const auto size_class = static_cast<unsigned>(size ? (size + kMinAlign - 1) / kMinAlign : 1);
  if (options_.mode == Mode::size) {
    choice.key = call_key(site.address, size_class);
    choice.pool = class_pool(size_class);
    return;
  }
  std::uintptr_t chain[kChainMax];
  unsigned depth = 0;
  CallFrame frame = site.frame;
  std::uintptr_t address = site.address;
  for (unsigned id = size_class;;) {
    choice.key = call_key(address, id);
    chain[depth++] = address;
    Way* const way = way_of(choice.key);
    if (!way) return;
    if (way->kind == Way::Kind::counted) decide(*way, address, chain, depth, size_class);
    if (way->kind == Way::Kind::counted) return;
    if (way->kind == Way::Kind::node) {
      if (!way->node) {  // too many of them
        choice.pool = &forwarding_;
        return;
      }
      Node& n = nodes_[way->node];
      if (!root(n.id).pool) count(n, site.stack_end);
      choice.pool = root(n.id).pool;
      choice.tag = n.id;
      if (options_.patches_sites && depth == 1 && choice.pool && !way->was_patched) patch_site(*way, address, *choice.pool->today());
      return;
    }
    if (!frame.climb(way->step, site.stack_end)) {
      ++counts_.climbs_failed;
      return;
    }
    choice.hop[choice.hops++] = {choice.key, &way->step};
    address = frame.return_address();
    id = way->step.id;
  }
}

/// A call that leads to one pool by itself carries it from now on.
void Observer::patch_site(Way& way, std::uintptr_t address, const Pool& pool) noexcept {
  way.was_patched = true;
  if (is_shut_in.load(Order::relaxed)) return;
  if (!pool.size_class || pool.is_forwarding || pool.id >= kNodesMax || !way.caller || !callers_[way.caller].module) return;
  sites_.patch(modules_[callers_[way.caller].module].module, address, pool.id, options_.malloc_in_pool);
}

/// A way that is still counted: perhaps it is known now what it is.
void Observer::decide(Way& way, std::uintptr_t address, const std::uintptr_t* chain, unsigned depth, unsigned size_class) noexcept {
  PlannedWay plan{};
  if (way.count == 0 && *options_.plan && &planned) plan = planned(chain, depth, size_class);
  if (plan.kind == PlannedWay::Kind::unknown && ++way.count < kObjectsBeforeAnalysis) return;
  const bool may_climb = plan.kind != PlannedWay::Kind::node && options_.mode != Mode::site && depth < kLevelsMax;
  if (may_climb && kFirstWrapperId + wrapper_ids_ <= UINT16_MAX) {
    const Caller* const c = judged_caller_of(address, way.caller);
    if (c && c->frame.is_known && (c->verdict == WrapperVerdict::wrapper || plan.kind == PlannedWay::Kind::wrapper)) {
      way.step = {.cfa_offset = c->frame.cfa_offset,
                  .rbp_offset = c->frame.saved_at[kRbpOfCalleeSaved],
                  .from_rbp = c->frame.from_rbp,
                  .id = static_cast<std::uint16_t>(kFirstWrapperId + wrapper_ids_++)};
      way.kind = Way::Kind::wrapper;
      return;
    }
  }
  if (!way.caller) caller_of(address, way.caller);
  way.node = node_for(chain, depth, size_class);
  way.kind = Way::Kind::node;
  if (!way.node) return;
  Node& n = nodes_[way.node];
  if (n.objects < way.count) n.objects = way.count - 1;  // this one is counted next
  if (plan.kind == PlannedWay::Kind::node && !n.pool) {
    n.is_planned = true;
    n.has_own_pool = plan.has_own_pool;
    if (plan.with && plan.with != n.id) unite(plan.with, n.id, Why::plan);
    give_pool(n);
  }
}

// -- callers

Caller* Observer::caller_of(std::uintptr_t address, std::uint32_t& number) noexcept {
  number = callers_by_address_.find(Index::hash(address), [&](std::uint32_t c) { return callers_[c].address == address; });
  if (number) return &callers_[number];
  const std::uint32_t fresh = idle_callers_ ? idle_callers_ : callers_.add();
  if (!fresh) return nullptr;
  if (idle_callers_) idle_callers_ = static_cast<std::uint32_t>(callers_[fresh].frame.function.first);
  callers_[fresh] = {.address = address, .verdict = WrapperVerdict::not_readable};
  callers_[fresh].module = known_module(module_of(address));
  const auto rehash = [&](std::uint32_t c) { return Index::hash(callers_[c].address); };
  if (!callers_by_address_.add(Index::hash(address), fresh, rehash)) return nullptr;
  number = fresh;
  return &callers_[fresh];
}

Caller* Observer::judged_caller_of(std::uintptr_t address, std::uint32_t& number) noexcept {
  Caller* const c = caller_of(address, number);
  if (!c || c->is_judged) return c;
  c->is_judged = true;
  ++counts_.judged;
  if (!c->module) return c;
  KnownModule& known = modules_[c->module];
  if (!known.code.holds(address)) known.code = code_of(known.module, address);
  c->frame = frame_rule(known.module, address);
  ++(c->frame.is_known ? counts_.rules_known : counts_.rules_unknown);
  c->verdict = judge_wrapper(known.module, known.code, address, c->frame, options_.wrappers);
  return c;
}

std::uint16_t Observer::known_module(const Module& m) noexcept {
  if (!m) return 0;
  for (std::uint32_t i = 1; i <= modules_.last(); ++i)
    if (!modules_[i].is_gone && modules_[i].module == m) return static_cast<std::uint16_t>(i);
  const std::uint32_t number = modules_.add();
  if (number) modules_[number].module = m;
  return static_cast<std::uint16_t>(number);
}

void Observer::code_unloaded() noexcept {
  Held held(lock_);
  bool any = false;
  for (std::uint32_t i = 1; i <= modules_.last(); ++i) {
    KnownModule& k = modules_[i];
    if (k.is_gone || k.is_loaded()) continue;
    k.is_gone = any = true;
    if (&unloaded) unloaded(k.module.first, k.module.last);
  }
  if (any) forget_gone_modules();
}

/// Ways and callers in modules that are gone may be used again; nodes stay, and are found again should the module come back.
void Observer::forget_gone_modules() noexcept {
  ++counts_.unloads;
  new_epoch();  // before steps are reused: whoever climbs sees it, or reads a step that is merely out of date
  const auto is_gone = [&](const Caller& c) { return c.module && modules_[c.module].is_gone; };
  ways_by_key_.clear();
  const auto rehash_way = [&](std::uint32_t w) { return Index::hash(ways_[w].key); };
  for (std::uint32_t i = 1; i <= ways_.last(); ++i) {
    Way& w = ways_[i];
    if (w.kind != Way::Kind::gone && w.caller && is_gone(callers_[w.caller])) {
      w.kind = Way::Kind::gone;
      w.caller = idle_ways_;
      idle_ways_ = i;
    }
    if (w.kind != Way::Kind::gone) ways_by_key_.add(rehash_way(i), i, rehash_way);
  }
  callers_by_address_.clear();
  const auto rehash_caller = [&](std::uint32_t c) { return Index::hash(callers_[c].address); };
  for (std::uint32_t i = 1; i <= callers_.last(); ++i) {
    Caller& c = callers_[i];
    if (c.address && is_gone(c)) {
      c.address = 0;
      c.module = 0;
      c.frame.function.first = idle_callers_;
      idle_callers_ = i;
    }
    if (c.address) callers_by_address_.add(rehash_caller(i), i, rehash_caller);
  }
}

// -- nodes

NodeId Observer::node_for(const std::uintptr_t* chain, unsigned depth, unsigned size_class) noexcept {
  const auto hash_of = [](const std::uintptr_t* c, unsigned length, unsigned k) {
    std::uint64_t h = k;
    for (unsigned i = 0; i < length; ++i) h = (h ^ c[i]) * 0xff51afd7ed558ccdull;
    return Index::hash(h ^ h >> 32);
  };
  const std::uint64_t hash = hash_of(chain, depth, size_class);
  const auto same = [&](std::uint32_t id) {
    const Node& n = nodes_[id];
    return n.size_class == size_class && n.chain_length == depth && memcmp(n.chain, chain, depth * sizeof *chain) == 0;
  };
  if (const auto found = nodes_by_chain_.find(hash, same)) return found;
  const NodeId id = nodes_.add();
  if (!id) {
    ++counts_.nodes_refused;
    return kNoNode;
  }
  Node& n = nodes_[id];
  n = {.id = id, .root = id, .size_class = size_class, .chain_length = depth};
  memcpy(n.chain, chain, depth * sizeof *chain);
  const auto rehash = [&](std::uint32_t i) { return hash_of(nodes_[i].chain, nodes_[i].chain_length, nodes_[i].size_class); };
  return nodes_by_chain_.add(hash, id, rehash) ? id : kNoNode;
}

Node& Observer::root(NodeId id) noexcept {
  while (nodes_[id].root != id) id = nodes_[id].root = nodes_[nodes_[id].root].root;
  return nodes_[id];
}

/// An object of a node that has no pool yet.
void Observer::count(Node& n, std::uintptr_t stack_end) noexcept {
  ++n.objects;
  if (stack_end == last_stack_end_) {
    n.alternations += last_counted_ != kNoNode && last_counted_ == n.previous;
    n.previous = last_counted_;
  }
  last_counted_ = n.id;
  last_stack_end_ = stack_end;
  if (n.objects < options_.objects_before_pool) return;
  if (options_.mode == Mode::graph) {
    if (n.comes_and_goes() && n.root == n.id && !n.trials) n.passes = true, ++counts_.passing;
    else if (&about_to_pool) about_to_pool(view(n.id));
  }
  give_pool(n);
}

void Observer::give_pool(Node& n) noexcept {
  Node& r = root(n.id);
  if (r.pool) return;
  const bool wants_own = r.has_own_pool || options_.mode != Mode::graph;
  Pool* const own = wants_own ? make_pool(r.size_class, r.id) : nullptr;
  r.has_own_pool = own != nullptr;
  r.pool = own ? own : class_pool(r.size_class);
}

/// Null when there are too many, or no memory: what many nodes share is nobody's own, and is never told to give way to another pool.
Pool* Observer::make_pool(unsigned size_class, NodeId tag) noexcept {
  if (pools_ + 1 >= kNodesMax) return nullptr;
  auto* const p = reinterpret_cast<Pool*>(analysis_memory(sizeof(Pool)));
  if (!p) return nullptr;
  p->id = ++pools_;
  p->size_class = size_class;
  p->tag = tag;
  p->is_forwarding = options_.overhead_only;
  return p;
}
Pool* Observer::make_mixed_pool() noexcept {
  Pool* const p = make_pool(0, kNoNode);
  if (!p) return nullptr;
  p->is_mixed = !p->is_forwarding;
  return p;
}
Pool* Observer::class_pool(unsigned size_class) noexcept {
  Pool*& p = class_pool_[size_class];
  if (p) return p;
  auto* const fresh = reinterpret_cast<Pool*>(analysis_memory(sizeof(Pool)));
  if (!fresh) return &forwarding_;
  fresh->id = ++pools_;
  fresh->size_class = size_class;
  fresh->is_forwarding = options_.overhead_only;
  return p = fresh;
}

// -- objects of nodes without a pool

void Observer::gave(const CallSite& site, CallChoice& choice, void* object, std::size_t size) noexcept {
  if (options_.mode != Mode::graph || !choice.tag) return;
  Held held(lock_);
  Node& n = nodes_[choice.tag];
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  if (const NodeId before = early_.find(address).node) ++nodes_[before].freed;
  early_.note(address, size, n.id);
  ++n.noted;
  if (&counted) counted(n.id, size);
  const bool is_sampled = (n.objects == kFirstSample || n.objects == kLastSample) && !n.comes_and_goes();
  Resume resume;
  if (!is_sampled || !&observed || !resume_at(site, choice, resume)) return;
  n.was_sampled = true;
  ++counts_.observed;
  observed(view(n.id), object, size, resume);
}

/// The registers behind the outermost wrapper's return, recovered frame by frame.
bool Observer::resume_at(const CallSite& site, const CallChoice& choice, Resume& out) noexcept {
  out = {.pc = site.address, .sp = site.frame.sp, .known = 0x3f};
  memcpy(out.callee_saved, site.callee_saved, sizeof out.callee_saved);
  for (unsigned i = 0; i < choice.hops; ++i) {
    const Way* const way = way_of(choice.hop[i].key);
    if (!way || !way->caller) return false;
    const FrameRule& rule = callers_[way->caller].frame;
    const std::uintptr_t base = rule.from_rbp ? out.callee_saved[kRbpOfCalleeSaved] : out.sp;
    const std::uintptr_t cfa = base + static_cast<std::uintptr_t>(std::intptr_t{rule.cfa_offset});
    if (!rule.is_known || cfa <= out.sp || cfa > site.stack_end) return false;
    for (unsigned r = 0; r < kCalleeSaved; ++r) {
      if (!rule.saved_at[r]) continue;
      const std::uintptr_t at = cfa + static_cast<std::uintptr_t>(std::intptr_t{rule.saved_at[r]});
      if (at < out.sp) return false;
      out.callee_saved[r] = *reinterpret_cast<const std::uintptr_t*>(at);
    }
    out.sp = cfa;
    out.pc = reinterpret_cast<const std::uintptr_t*>(cfa)[-1];
  }
  return true;
}

void EarlyObjects::note(std::uintptr_t object, std::size_t bytes, NodeId node) noexcept {
  if (!row_ && !(row_ = reinterpret_cast<Row*>(analysis_memory(sizeof(Row) * kRows << kLastLog2)))) return;
  const std::uint64_t first = object / kMinAlign, granules = (bytes + kMinAlign - 1) / kMinAlign;
  if (object >> 47) return;
  for (std::uint64_t i = 0; i < granules && i < 1u << kOffsetBits; ++i) put(first + i, (first + i) << kKeyShift | i << kNodeBits | node);
}

void EarlyObjects::put(std::uint64_t granule, Row row) noexcept {
  Row* const bucket = row_ + index_of(granule, log2_);
  unsigned i = 0;
  while (i < kRows && bucket[i] && bucket[i] >> kKeyShift != granule) ++i;
  if (i == kRows) i = forgotten_++ % kRows;
  taken_ += !bucket[i];
  bucket[i] = row;
  if (taken_ * 2 > kRows << log2_ && log2_ < kLastLog2) spread();
}

/// A bucket becomes two, of which the first begins where it lies or behind: the last one goes first.
void EarlyObjects::spread() noexcept {
  std::size_t from = kRows << log2_;
  log2_ = log2_ + 1;
  while (from) {
    from -= kRows;
    Row old[kRows];
    memcpy(old, row_ + from, sizeof old);
    memset(row_ + from * 2, 0, 2 * sizeof old);
    for (const Row row : old) {
      if (!row) continue;
      Row* to = row_ + index_of(row >> kKeyShift, log2_);
      while (*to) ++to;
      *to = row;
    }
  }
}

EarlyObjects::Place EarlyObjects::find(std::uintptr_t address) const noexcept {
  const std::uint64_t granule = address / kMinAlign;
  if (!row_ || address >> 47) return {};
  const Row* const bucket = row_ + index_of(granule, log2_);
  for (unsigned i = 0; i < kRows && bucket[i]; ++i) {
    if (bucket[i] >> kKeyShift != granule) continue;
    const auto place = static_cast<std::uint32_t>(bucket[i] & ((Row{1} << kKeyShift) - 1));
    return {.node = place & ((1u << kNodeBits) - 1), .offset = place >> kNodeBits};
  }
  return {};
}

}  // namespace mortise::affinity
