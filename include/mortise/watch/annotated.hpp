// Tells a memory checker what is a block and what is not, so that it finds stray accesses under our malloc as under its own.
//
//   block of the layer below ┌──────────────────┬─────────────────────────────┐
//   low address              │ what was asked   │ out of bounds (kTail.. bytes)│  high address; the request's size lies in the last word
//                            └──────────────────┴─────────────────────────────┘
//
// A block that is released is out of bounds as a whole until it is given out again. Every call takes the long way: no hits.
//
// Progress: as below. Placement: on top, for builds that are run under a checker; below it only backbones that leave free blocks
// alone (Slab), since nobody may touch those. Source: [Nethercote07] memcheck's client requests; [Serebryany12] AddressSanitizer.
#pragma once

#include <cstring>

#include "mortise/core/core.hpp"
#include "mortise/policy/checker.hpp"
#include "mortise/policy/size_classes.hpp"

namespace mortise {

/// `Checker`: which checker is told.
template <CheckerPolicy Checker> struct Annotated {
  static constexpr const char* kName = "Annotated";
  static constexpr const char* kWhat = "tells a memory checker what is a block";
  static constexpr const char* kNeeds = "a stack that finds blocks by pointer and leaves free ones alone (Slab)";
  template <class Out> static void describe(Out& out) { out.layer(kName, kWhat).policy("Checker", Checker::kName); }

  template <Locates Below> class Over : public Passthrough<Below> {
   public:
    using typename Passthrough<Below>::Thread;
    static constexpr std::size_t kTail = 32;
    using Classes = Shrunk<typename Below::Classes, kTail>;
    static constexpr bool kExactSizes = true, kMeasuresToTheByte = true;  ///< a block of no bytes is one of size 0
    static constexpr BlockFacts kFacts = facts_of<Below>().shared();

    Block allocate(Thread& t, Request r) noexcept {
      Request wish = r.grown_by(kTail);
      wish.zeroed = false;  // the layers below may not clear what is out of bounds
      Block b = this->below.allocate(t, wish);
      if (!b) return {};
      if (b.is_unsized()) b = this->below.measure(b);
      put_size(b, r.size);
      Checker::hide(b.ptr, b.size);
      Checker::given(b.ptr, r.size, r.zeroed);
      if (r.zeroed) std::memset(b.ptr, 0, r.size);
      return {b.ptr, r.size ? r.size : 1, b.class_index()};
    }
    void release(Thread& t, Block b) noexcept {
      const Block whole = this->below.measure({b.ptr, 0, b.class_index()});
      Checker::taken(b.ptr, size_of(whole));
      this->below.release(t, whole);
    }
    Block measure(Block b) noexcept {
      b = this->below.measure(b);
      return {b.ptr, size_of(b), b.class_index()};
    }
    Block resize_in_place(Thread&, Block, std::size_t) = delete;   // the caller copies: checkers know blocks by their start
    Block resize_by_moving(Thread&, Block, std::size_t) = delete;
    unsigned allocate_batch(Thread&, unsigned, std::byte**, unsigned) = delete;
    void release_batch(Thread&, unsigned, std::byte**, unsigned) = delete;
    void check_size(std::byte*, std::size_t, std::size_t) = delete;  // below, a block is larger than the program knows

   private:
    static std::byte* word_of(Block b) noexcept { return b.end() - sizeof(std::size_t); }
    static void put_size(Block b, std::size_t size) noexcept {
      Checker::show(word_of(b), sizeof size);
      std::memcpy(word_of(b), &size, sizeof size);
    }
    static std::size_t size_of(Block b) noexcept {
      std::size_t size;
      Checker::show(word_of(b), sizeof size);
      std::memcpy(&size, word_of(b), sizeof size);
      Checker::hide(word_of(b), sizeof size);
      return size;
    }
  };
};

}  // namespace mortise
