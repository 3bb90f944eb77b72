// Two heaps side by side: a whole stack of its own beside what is below. Which one is asked is the deriving layer's affair; whose a
// block is, the stack beside says by its address.
//
//             request
//            ╱       ╲
//   [ beside ]       [ below ]       each with a source of its own; a thread has a record in both
//
// Progress: the weaker of both. Placement: the base of Segregate and Fallback.
#pragma once

#include "mortise/core/core.hpp"

namespace mortise {

/// Forwards to both, or to the one that a block lies in. Size classes are not shown: the two would not agree on them.
template <class Beside, Heap Below> requires Locates<Beside> && (Locates<Below> || !Classed<Below>)
class TwoHeaps : public Passthrough<Below> {
 public:
  struct Thread {
    [[no_unique_address]] typename Beside::Thread beside{};
    [[no_unique_address]] typename Below::Thread below{};
  };
  using Classes = NoClasses;
  static constexpr Progress kProgress = weakest(Beside::kProgress, Below::kProgress);
  static constexpr bool kExactSizes = kSizesExactly<Beside> && kSizesExactly<Below>;
  static constexpr unsigned kPlanesTaken = 0;
  static constexpr BlockFacts kFacts{};

  void release(Thread& t, Block b) noexcept {
    if (beside_.holds(b.ptr)) beside_.release(t.beside, known(beside_, b));
    else this->below.release(t.below, known(this->below, b));
  }

  bool holds(const std::byte* p) noexcept requires Locates<Below> { return beside_.holds(p) || this->below.holds(p); }
  Block block_of(std::byte* p) noexcept requires Locates<Below> { return {p, 0}; }
  Block measure(Block b) noexcept requires Locates<Below> {
    return shown(beside_.holds(b.ptr) ? known(beside_, b) : known(this->below, b));
  }
  Block resize_in_place(Thread& t, Block b, std::size_t n) noexcept requires (Resizes<Beside> || Resizes<Below>) {
    if (beside_.holds(b.ptr)) return shown(resize_below(beside_, t.beside, known(beside_, b), n));
    return shown(resize_below(this->below, t.below, known(this->below, b), n));
  }

  /// A guard of one of the two says nothing of the other's blocks.
  void check_size(std::byte* p, std::size_t n, std::size_t align) noexcept requires (ChecksSizes<Beside> || ChecksSizes<Below>) {
    if (beside_.holds(p)) check_below(beside_, p, n, align);
    else check_below(this->below, p, n, align);
  }
  const void* freed_at(const std::byte* p) noexcept requires (Remembers<Beside> || Remembers<Below>) {
    const void* place = nullptr;
    if constexpr (Remembers<Beside>) place = beside_.freed_at(p);
    if constexpr (Remembers<Below>) place = place ? place : this->below.freed_at(p);
    return place;
  }
  bool explain(const std::byte* p, Crime& c) noexcept requires (Explains<Beside> || Explains<Below>) {
    if constexpr (Explains<Beside>)
      if (beside_.explain(p, c)) return true;
    if constexpr (Explains<Below>) return this->below.explain(p, c);
    return false;
  }

  // What the two would have to do together, or what one of them alone could not answer for, is not offered.
  Block resize_by_moving(Thread&, Block, std::size_t) = delete;
  unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;
  void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;
  void page_index() = delete;
  void block_marks() = delete;
  void see_resident_bytes(std::size_t&) = delete;

  bool start(const os::Facts& facts) noexcept requires (Starts<Beside> || Starts<Below>) {
    return start_below(beside_, facts) && start_below(this->below, facts);
  }
  void attach(Thread& t) noexcept requires (Attaches<Beside> || Attaches<Below>) {
    attach_below(beside_, t.beside);
    attach_below(this->below, t.below);
  }
  void detach(Thread& t) noexcept requires (Attaches<Beside> || Attaches<Below>) {
    detach_below(beside_, t.beside);
    detach_below(this->below, t.below);
  }
  std::size_t trim(Thread& t) noexcept requires (Trims<Beside> || Trims<Below>) {
    return trim_below(beside_, t.beside) + trim_below(this->below, t.below);
  }
  std::size_t purge_idle() noexcept requires (Purges<Beside> || Purges<Below>) {
    return purge_below(beside_) + purge_below(this->below);
  }
  std::size_t idle_bytes() noexcept requires (Purges<Beside> || Purges<Below>) {
    return idle_bytes_below(beside_) + idle_bytes_below(this->below);
  }
  std::int64_t purge_ms() noexcept requires (Purges<Beside> || Purges<Below>) {
    return Purges<Below> ? purge_ms_below(this->below) : purge_ms_below(beside_);
  }
  void set_purge_ms(std::int64_t ms) noexcept requires (Purges<Beside> || Purges<Below>) {
    set_purge_ms_below(beside_, ms);
    set_purge_ms_below(this->below, ms);
  }
  void lock_all() noexcept requires (HoldsLocks<Beside> || HoldsLocks<Below>) {
    lock_below(beside_);
    lock_below(this->below);
  }
  void unlock_all() noexcept requires (HoldsLocks<Beside> || HoldsLocks<Below>) {
    unlock_below(this->below);
    unlock_below(beside_);
  }
  void reset_after_fork() noexcept requires (HoldsLocks<Beside> || HoldsLocks<Below>) {
    reset_below(beside_);
    reset_below(this->below);
  }
  void tell(Usage& u) noexcept requires (Tells<Beside> || Tells<Below>) {
    tell_below(beside_, u);
    tell_below(this->below, u);
  }
  void audit() noexcept requires (Audits<Beside> || Audits<Below>) {
    if constexpr (Audits<Beside>) beside_.audit();
    if constexpr (Audits<Below>) this->below.audit();
  }

 protected:
  Block ask_beside(Thread& t, Request r) noexcept { return shown(beside_.allocate(t.beside, r)); }
  Block ask_below(Thread& t, Request r) noexcept { return shown(this->below.allocate(t.below, r)); }

 private:
  static Block shown(Block b) noexcept { return {b.ptr, b.size}; }
  template <class H> static void check_below([[maybe_unused]] H& h, std::byte* p, std::size_t n, std::size_t align) noexcept {
    if constexpr (ChecksSizes<H>) h.check_size(p, n, align);
  }
  /// The block as its heap knows it: with its class, which is not shown above.
  template <class H> static Block known(H& h, Block b) noexcept {
    if constexpr (Locates<H>) {
      const Block found = h.block_of(b.ptr);
      return h.measure(found);
    } else {
      return b;
    }
  }

  Beside beside_;
};

}  // namespace mortise
