// Pools for small objects, chosen by the chain of calls that asks for them: what is visited together lies together.
//
//   malloc(n)  ── class open? ── ways: return address + size class ──► this thread's head of the pool ── pop ── done
//                   │ no: below        │ miss                             │ segment used up
//                   │                  └─► Chooser: which pool?           └─► drain remote, next segment, new extent
//   free(p)    ── the heap's below? ── else in the range? ── descriptor ── owner is this thread? ── push on the segment's list ── done
//                                                               └ no: push on the head's remote list
//
// An object carries no header. Objects that the Chooser has not decided about yet come from the heap below. A signal handler that
// interrupts us allocates below and releases remotely. A thread that ends orphans its heads; the next one that needs such a
// pool takes the head over, objects and all.
//
// Looking up must pay. A head has a lease of objects; when it is used up, the Chooser may close the size class: its objects come
// from the heap below then, for three instructions more, and some of that heap's misses are samples for the Chooser.
//
// Progress: hit wait-free, remote release lock-free, misses blocking. Source: dynamic pool allocation [Wang10].
// Placement: on top of any stack that finds blocks by pointer, or under guards; not under a cache, which would mix pools again.
#pragma once

#include <cstring>
#include <utility>

#include "mortise/core/core.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/policy/chooser.hpp"
#include "mortise/route/call_chain.hpp"
#include "mortise/route/pool_heads.hpp"
#include "mortise/route/size_gate.hpp"

namespace mortise {

/// `Chooser`: which pool an object comes from.
/// `kSegmentBytes` (1 KiB..64 KiB, power of two): the unit in which a pool's memory is reclaimed.
template <ChooserPolicy Chooser = BySizeClass<>, std::size_t kSegmentBytes = 4_KiB> struct AffinityPools {
  static constexpr const char* kName = "AffinityPools";
  static constexpr const char* kWhat = "pools of small objects, chosen by the chain of calls that asks for them";
  static constexpr const char* kNeeds = "a heap that finds blocks by pointer, with fewer than 255 size classes";
  template <class Out> static void describe(Out& out) {
    out.layer(kName, kWhat).policy("Chooser", Chooser::kName).number("segment_bytes", kSegmentBytes);
  }
  template <Heap Below> requires Locates<Below> && (Below::Classes::kCount < 255)
  class Over : public Passthrough<Below> {
   public:
    using ChooserType = Chooser;
    using Classes = NoClasses;  // its blocks are of no class of the heap below: a cache above would mix pools
    static constexpr BlockFacts kFacts = facts_of<Below>().with(Spans::none);
    static constexpr Progress kProgress = {Below::kProgress.hit, Guarantee::blocking, Guarantee::blocking};
    static constexpr bool kReadsCalls = Chooser::kReadsCalls, kExactSizes = false;
    static constexpr unsigned kPassesPerSample = 16;
    static constexpr unsigned kPooled = 255;  ///< the size class that marks a block of ours
    using Pools = PoolHeads<kSegmentBytes>;
    static constexpr std::size_t kPoolsMax = 32768, kPageOfHeads = Pools::kPageOfHeads;

    struct Thread {
      bool busy = false;                ///< inside; a signal handler that comes now goes below
      std::uint8_t passes = 0;          ///< misses of the heap below in classes that are closed
      std::uint32_t epoch = 0;
      std::uintptr_t stack_end = 0;
      CallWays<> ways;
      PoolHead* heads = nullptr;        ///< all that this thread owns
      PoolHead** page[kPoolsMax / kPageOfHeads] = {};
      [[no_unique_address]] typename Below::Thread below{};
    };

    /// Whether a request goes below without a look at the caller; this thread's record is not needed then, unless by that heap.
    MORTISE_HOT bool passes(const Request& r) const noexcept { return !is_ours(r); }
    static constexpr bool kPassesAlone = std::is_empty_v<typename Below::Thread> && Hits<Below>;
    MORTISE_HOT Block pass(Request r) noexcept requires kPassesAlone {
      typename Below::Thread nothing{};
      return this->below.allocate_hit(nothing, r);
    }
    MORTISE_HOT bool is_passed(const std::byte* p) noexcept { return this->below.holds(p); }
    /// The heap that such requests and pointers are passed to.
    MORTISE_HOT Below& passed() noexcept { return this->below; }
    MORTISE_HOT bool pass(std::byte* p) noexcept requires kPassesAlone {
      typename Below::Thread nothing{};
      return hit_below(this->below, nothing, p);
    }

    MORTISE_HOT Block allocate_hit(Thread& t, Request r) noexcept {
      if (passes(r)) return hit_below(this->below, t.below, r);
      const std::uintptr_t goal = goal_of(t, r);
      if (!goal) return {};
      if (leads_to_objects(goal)) return take_from(t, goal, r);
      return leads_on(goal) ? allocate_through(t, r, goal) : forward(t, goal, r);
    }
    /// For requests that do not pass, in two halves: what the call leads to, 0 on a miss, and an object from there. A goal may be a step
    /// over a wrapper's frame, from which `allocate_through` goes up the stack, as far as that can be done without the frame register.
    MORTISE_HOT std::uintptr_t goal_of(const Thread& t, const Request& r) const noexcept {
      return t.ways.goal_of(address_of_call(r), class_of(r.size));
    }
    MORTISE_HOT static bool leads_to_objects(std::uintptr_t goal) noexcept { return CallWays<>::is_head(goal); }
    MORTISE_HOT static bool leads_on(std::uintptr_t goal) noexcept { return CallWays<>::is_step(goal); }
    /// The head of the pool that the call itself names; 0 when this thread has none, or its objects are of another size.
    MORTISE_HOT std::uintptr_t goal_in(const Thread& t, std::uint32_t pool, std::size_t size) const noexcept {
      PoolHead* const* const page = t.page[pool / kPageOfHeads];
      PoolHead* const h = page ? page[pool % kPageOfHeads] : nullptr;
      return h && h->current->stride - size < kMinAlign ? reinterpret_cast<std::uintptr_t>(h) : 0;
    }
    MORTISE_HOT Block take_from(Thread& t, std::uintptr_t goal, Request r) noexcept {
      if (t.busy) [[unlikely]] return {};
      auto* const h = reinterpret_cast<PoolHead*>(goal);
      t.busy = true;
      compiler_fence();
      std::byte* p = nullptr;
      if (--h->lease >= 0) [[likely]] p = Pools::pop(*h->current);
      compiler_fence();
      t.busy = false;
      if (!p) [[unlikely]] return {};
      if (r.zeroed) std::memset(p, 0, r.size);
      return {p, class_of(r.size) * kMinAlign, kPooled};
    }
    /// Nothing but the count is ours, in which a signal handler's step back may be lost.
    MORTISE_HOT Block forward(Thread& t, std::uintptr_t goal, Request r) noexcept {
      if (--CallWays<>::head_to_forward(goal)->lease < 0) [[unlikely]] return {};
      return hit_below(this->below, t.below, r);
    }
    /// Not once code has been unloaded: a rule that is out of date could lead off a coroutine's stack, of which nobody knows the end.
    MORTISE_HOT Block allocate_through(Thread& t, Request r, std::uintptr_t goal) noexcept {
      if (t.epoch != chooser_.epoch()) [[unlikely]] return {};
      goal = t.ways.climb(goal, sp_of(r), t.stack_end);
      if (!goal) [[unlikely]] return {};
      return leads_to_objects(goal) ? take_from(t, goal, r) : forward(t, goal, r);
    }
    MORTISE_HOT bool release_hit(Thread& t, Block b) noexcept {
      if (b.size_class == kPooled) return release_pooled(&t, b.ptr);
      if constexpr (Hits<Below>) return this->below.release_hit(t.below, b); else return false;
    }
    /// For blocks that do not pass. `t` may be null: a thread without a record owns nothing.
    MORTISE_HOT bool release_pooled(Thread* t, std::byte* p) noexcept {
      if (!pools_.range().holds(p)) return false;
      PoolSegment& s = *pools_.range().segment_of(p);
      if (!may_put(t, glance(s.head), s, p) || s.live == s.notice) [[unlikely]] return false;
      const Inside inside(*t);
      Pools::push(s, p);
      return true;
    }

    Block allocate(Thread& t, Request r) noexcept {
      if (t.busy || (!is_ours(r) && !opens_for(t, r))) [[unlikely]] return allocate_below(t, r);
      CallChoice choice;
      CallSite site;
      PoolHead *h, *missed = nullptr;
      {
        const Inside inside(t);
        if (!(h = find_again(t, r, site))) h = ask(t, r, site, choice);
        else if (h->is_forwarding && h->lease > 0) missed = h;
        if (h && h->lease <= 0) renew(*h);
        std::byte* const p = h && !h->is_forwarding ? pools_.take(*h, r.size) : nullptr;
        if (h && h->grown) tell_growth(*h, p);
        if (p) {
          if (r.zeroed) std::memset(p, 0, r.size);
          return {p, h->mixed ? r.size : h->pool->stride(), kPooled};
        }
      }
      const Block b = allocate_below(t, r);
      if (!b) [[unlikely]] return from_another_pool(t, r);
      if constexpr (Leases<Chooser>) missed ? chooser_.forwarded(*missed->pool, b.ptr) : void();
      if (!h && !choice.pool) {
        const Inside inside(t);
        chooser_.gave(site, choice, b.ptr, r.size);
      }
      return b;
    }
    void release(Thread& t, Block b) noexcept {
      if (b.size_class != kPooled || !pools_.range().holds(b.ptr)) return this->below.release(t.below, b);  // pools below, too
      PoolSegment& s = *pools_.range().segment_of(b.ptr);
      PoolHead* const h = glance(s.head);
      MORTISE_CHECK(h && glance(s.live), Fault::invalid_free, (Block{b.ptr, 0}));
      if (may_put(&t, h, s, b.ptr) || (h->mixed && !t.busy)) {
        const Inside inside(t);
        return pools_.put(s, b.ptr);
      }
      MORTISE_CHECK(h->owner.load(Order::relaxed) != &t || s.free != b.ptr, Fault::double_free, (Block{b.ptr, s.stride}));
      h->push_remote(b.ptr);
    }

    MORTISE_HOT bool holds(const std::byte* p) noexcept { return pools_.range().holds(p) || this->below.holds(p); }
    MORTISE_HOT Block block_of(std::byte* p) noexcept { return pools_.range().holds(p) ? Block{p, 0, kPooled} : this->below.block_of(p); }
    Block measure(Block b) noexcept {
      if (!pools_.range().holds(b.ptr)) return this->below.measure(b);
      const PoolSegment& s = *pools_.range().segment_of(b.ptr);
      MORTISE_CHECK(glance(s.head), Fault::invalid_free, b);
      return {b.ptr, pools_.bytes_of(s, b.ptr), kPooled};
    }
    Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires Resizes<Below> {
      return b.size_class == kPooled ? Block{} : this->below.resize_in_place(t.below, b, n);
    }
    Block resize_by_moving(Thread& t, Block b, std::size_t n) noexcept requires Moves<Below> {
      return b.size_class == kPooled ? Block{} : this->below.resize_by_moving(t.below, b, n);
    }
    unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;  // blocks of pools are of no class
    void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;
    void block_marks() = delete;  // nor have they marks
    void check_size(std::byte* p, std::size_t n, std::size_t align) noexcept requires ChecksSizes<Below> {
      if (!pools_.range().holds(p)) this->below.check_size(p, n, align);
    }

    bool start(const os::Facts& facts) noexcept {
      if (!start_below(this->below, facts)) return false;
      if (is_started_) return true;
      if (!pools_.start(facts.page_bytes, PoolMeter::of(this->below)) || !chooser_.start()) return false;
      watch_thread_ = facts.watch_thread;
      if constexpr (requires { chooser_.set_locator(this, locate, survey); }) chooser_.set_locator(this, locate, survey);
      open();
      return true;
    }
    /// Pools are used for objects of up to what the Chooser says from now on.
    void open() noexcept {
      is_started_ = true;
      gate_.limit_to(chooser_.object_bytes_max());
    }
    void attach(Thread& t) noexcept {
      attach_below(this->below, t.below);
      if constexpr (kReadsCalls) t.stack_end = Chooser::stack_end();
    }
    /// The thread's heads wait for another thread that needs their pools.
    void detach(Thread& t) noexcept {
      t.busy = true;  // for good: what a signal handler still asks for comes from below
      compiler_fence();
      t.ways.clear();
      while (PoolHead* h = t.heads) {
        t.heads = h->next_of_thread;
        t.page[h->pool->id / kPageOfHeads][h->pool->id % kPageOfHeads] = nullptr;
        pools_.orphan(*h);
      }
      for (PoolHead**& page : t.page)
        if (page) pools_.give_page(std::exchange(page, nullptr));
      detach_below(this->below, t.below);
    }

    std::size_t trim(Thread& t) noexcept { return trim_pools(t) + trim_below(this->below, t.below); }
    std::size_t purge_idle() noexcept requires Purges<Below> {
      const std::size_t waiting = this->below.purge_idle();
      pools_.purge(2);  // called every half delay
      return waiting + pools_.dirty_bytes();
    }
    std::size_t idle_bytes() noexcept requires Purges<Below> { return this->below.idle_bytes() + pools_.dirty_bytes(); }

    void lock_all() noexcept {
      chooser_.lock_all();
      gate_.lock_all();
      pools_.lock_all();
      lock_below(this->below);
    }
    void unlock_all() noexcept {
      unlock_below(this->below);
      pools_.unlock_all();
      gate_.unlock_all();
      chooser_.unlock_all();
    }
    /// The heads of the parent's other threads stay theirs: they may have been in the middle of something.
    void reset_after_fork() noexcept {
      chooser_.reset_after_fork();
      gate_.reset_after_fork();
      pools_.reset_after_fork();
      reset_below(this->below);
    }
    void tell(Usage& u) noexcept requires Tells<Below> { tell_below(this->below, u), pools_.tell(u); }
    /// The heap must be at rest.
    void audit() noexcept {
      pools_.audit();
      if constexpr (Audits<Below>) this->below.audit();
    }
    Chooser& chooser() noexcept { return chooser_; }
    Pools& pools() noexcept { return pools_; }
    void set_huge_pages(HugePages p) noexcept { pools_.set_huge(p), set_huge_pages_below(this->below, p); }
   private:
    /// Marks a thread as being inside, for signal handlers of its own.
    class Inside {
     public:
      MORTISE_HOT explicit Inside(Thread& t) noexcept : t_(t) {
        t_.busy = true;
        compiler_fence();
      }
      MORTISE_HOT ~Inside() {
        compiler_fence();
        t_.busy = false;
      }
      Inside(const Inside&) = delete;
      Inside& operator=(const Inside&) = delete;

     private:
      Thread& t_;
    };

    /// Empty requests are not: there is no class for them.
    MORTISE_HOT bool is_ours(const Request& r) const noexcept {
      return gate_.lets_in(r.size) && r.align <= kMinAlign && (!kReadsCalls || r.site);
    }
    MORTISE_HOT static unsigned class_of(std::size_t size) noexcept { return static_cast<unsigned>(SizeGate::class_of(size)); }
    /// This thread's segment, and the object not the one released last.
    MORTISE_HOT static bool may_put(const Thread* t, PoolHead* h, const PoolSegment& s, const std::byte* p) noexcept {
      return h && h->owner.load(Order::relaxed) == t && !t->busy && s.free != p;
    }
    /// When nobody finds memory: an object of the same size that another of this thread's pools has room for.
    Block from_another_pool(Thread& t, Request r) noexcept {
      if (t.busy) return {};
      const Inside inside(t);
      for (PoolHead* h = t.heads; h; h = h->next_of_thread) {
        if (h->is_forwarding || h->pool->size_class != class_of(r.size)) continue;
        std::byte* const p = pools_.take(*h, r.size);
        if (!p) continue;
        if (r.zeroed) std::memset(p, 0, r.size);
        return {p, h->pool->stride(), kPooled};
      }
      return {};
    }
    /// A miss below opens a class; once it is closed, some are samples. Above a heap without hits the first does, and none is closed.
    bool opens_for(Thread& t, const Request& r) noexcept {
      if (r.align > kMinAlign || (kReadsCalls && !r.site)) return false;
      const Inside inside(t);
      bool opens = gate_.gate_of(r.size) == Gate::unasked;
      if constexpr (Leases<Chooser> && Hits<Below>) {
        if (opens) opens = chooser_.missed(class_of(r.size));
        else if (r.size && r.size <= chooser_.object_bytes_max() && ++t.passes % kPassesPerSample == 0)
          opens = chooser_.passed(site_of(t, r), r.size);
      }
      if (opens) gate_.set(class_of(r.size), Gate::open);
      return opens;
    }
    void renew(PoolHead& h) noexcept {
      std::uint32_t lease = INT32_MAX;
      if constexpr (Leases<Chooser> && Hits<Below>) lease = chooser_.renew(*h.pool, h.leased);
      if (!lease) gate_.set(h.pool->size_class, Gate::closed);
      h.lease = static_cast<std::int32_t>(h.leased = lease);
    }
    void tell_growth(PoolHead& h, const std::byte* object) noexcept {
      if constexpr (Leases<Chooser>) chooser_.grew(*h.pool, std::exchange(h.grown, 0), object);
    }
    /// When the heap below finds no memory, our empty segments may be what it lacks.
    Block allocate_below(Thread& t, Request r) noexcept {
      const Block b = this->below.allocate(t.below, r);
      return b || t.busy || !trim_pools(t) ? b : this->below.allocate(t.below, r);
    }
    std::size_t trim_pools(Thread& t) noexcept {
      const Inside inside(t);
      for (PoolHead* h = t.heads; h; h = h->next_of_thread) pools_.tidy(*h);
      return pools_.trim_mixed() + pools_.purge(0);
    }
    MORTISE_HOT std::uintptr_t address_of_call(const Request& r) const noexcept {
      if constexpr (kReadsCalls) return *static_cast<const std::uintptr_t*>(r.site);
      return 0;
    }
    MORTISE_HOT static std::uintptr_t sp_of(const Request& r) noexcept { return address_of(r.site) + sizeof(void*); }

    static void survey(void* layer, void* context, PoolSurvey each) noexcept {
      static_cast<Over*>(layer)->pools_.survey([&](Pool& p, std::uint32_t live, std::uint32_t room) { each(context, p, live, room); });
    }
    static PooledObject locate(void* layer, const std::byte* p) noexcept { return static_cast<Over*>(layer)->pools_.object_at(p); }
    /// The way once more, now that the caller's registers are known, and steps that have become invalid are forgotten.
    PoolHead* find_again(Thread& t, const Request& r, CallSite& site) noexcept {
      const std::uint32_t epoch = chooser_.epoch();
      if (std::exchange(t.epoch, epoch) != epoch) t.ways.clear();
      site = site_of(t, r);
      PoolHead* const h = t.ways.follow(site.address, class_of(r.size), site.frame, t.stack_end);
      return h && !h->pool->successor.load(Order::acquire) ? h : nullptr;
    }
    /// With the registers that an entry point saved below the return address.
    CallSite site_of(const Thread& t, const Request& r) const noexcept {
      const CallFrame frame{.sp = sp_of(r), .rbp = 0, .has_rbp = false};
      CallSite site{.address = address_of_call(r), .frame = frame, .stack_end = t.stack_end, .callee_saved = nullptr};
      if constexpr (kReadsCalls) {
        site.callee_saved = static_cast<const std::uintptr_t*>(r.site) - 6;
        site.frame.rbp = site.callee_saved[1];
        site.frame.has_rbp = true;
      }
      return site;
    }
    PoolHead* ask(Thread& t, const Request& r, const CallSite& site, CallChoice& choice) noexcept {
      chooser_.choose(site, r.size, choice);
      if (!choice.pool) return nullptr;
      PoolHead* const h = head_of(t, *choice.pool->today());
      if (!h) return nullptr;
      for (unsigned i = 0; i < choice.hops; ++i) t.ways.set(choice.hop[i].key, choice.hop[i].step);
      t.ways.set(choice.key, h);
      return h;
    }
    PoolHead* head_of(Thread& t, Pool& pool) noexcept {
      if (pool.id >= kPoolsMax) return nullptr;
      PoolHead**& page = t.page[pool.id / kPageOfHeads];
      PoolHead* h = page ? page[pool.id % kPageOfHeads] : nullptr;
      if (h) return h;
      if (!page && !(page = pools_.take_page())) return nullptr;
      if (!(h = pools_.adopt(pool, &t))) return nullptr;
      h->next_of_thread = t.heads;
      t.heads = h;
      page[pool.id % kPageOfHeads] = h;
      if (watch_thread_) watch_thread_();
      return h;
    }
    Pools pools_;
    SizeGate gate_;  ///< closed before start: every call goes below, and misses
    bool is_started_ = false;
    Chooser chooser_;
    void (*watch_thread_)() noexcept = nullptr;
  };
};

}  // namespace mortise
