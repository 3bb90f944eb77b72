// What must be known of the blocks below and no member tells: a stack that would not hold is refused by it, at compile time.
//
// Passthrough forwards what a layer does not change.
#pragma once

namespace mortise {

/// What the blocks are that a heap with a page index gives for whole granules.
enum class Spans : unsigned char {
  whole,   ///< spans of the index, each a block's alone
  fresh,   ///< the same, straight from the source
  walled,  ///< spans of which nobody may touch the end
  slabs,   ///< the same, and nothing else knows where they end: for slabs alone
  none,    ///< not each of them is a span from its start on
};

struct BlockFacts {
  Spans spans = Spans::whole;
  unsigned watchers = 0;     ///< layers that must see each block come and go: it may pass none of them one way only
  bool is_written = false;   ///< something is written into blocks that were released
  bool has_headers = false;  ///< a pointer is known by what lies before it: none into the inside of a block is

  /// As the source gave them, and nobody minds how they are taken apart and joined.
  constexpr bool are_raw() const noexcept { return spans == Spans::fresh && watchers == 0; }
  constexpr bool has_walls() const noexcept { return spans == Spans::walled || spans == Spans::slabs; }

  constexpr BlockFacts with(Spans s) const noexcept { return {s, watchers, is_written, has_headers}; }
  constexpr BlockFacts watched() const noexcept { return {spans, watchers + 1, is_written, has_headers}; }
  constexpr BlockFacts written() const noexcept { return {spans, watchers, true, has_headers}; }
  /// A part of each block is the layer's own: behind it, or before it as well.
  constexpr BlockFacts shared() const noexcept { return {Spans::none, watchers + 1, true, has_headers}; }
  constexpr BlockFacts with_headers() const noexcept { return {Spans::none, watchers + 1, true, true}; }
};

template <class H> constexpr BlockFacts facts_of() noexcept {
  if constexpr (requires { H::kFacts; }) return H::kFacts; else return {};
}

}  // namespace mortise
