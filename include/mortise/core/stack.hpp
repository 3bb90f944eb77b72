// Compositions: lists of layers, read in the order a request travels, folded into one type.
//
//   using Mine = Stack<Layers<ThreadCache<>, Slab<>, PageIndex, MmapHeap<>>>;
//
// Lists are values of their own, so that a variant prepends: Stack<Layers<TailChecksum<>>, HslabLayers>.
// What cannot be is refused here, and the first line of the error says why: a layer that does not fit, with what it needs; one
// that makes no heap, with what is missing; a list without a source.
#pragma once

#include "mortise/core/layer.hpp"

namespace mortise {

template <class... L> struct Layers {};

/// What a layer needs, in words that a compiler prints.
struct Needs {
  char text[120]{};
  consteval Needs(const char* words) {
    for (unsigned i = 0; i < sizeof text - 1 && words[i]; ++i) text[i] = words[i];
  }
};

/// Left undefined on purpose: it appears in an error message when `Layer` does not fit on `Below`. `needs` is its `kNeeds`; the same
/// stands in the requires-clause of its `Over`.
template <class Layer, Needs needs, class Below> struct LayerDoesNotFit;

/// Left undefined on purpose: it appears when the last entry of a stack is not a source, such as MmapHeap.
template <class Last> struct LastEntryIsNoSource;

/// Left undefined on purpose: it appears when `Entry` is given to Stack or Join as it is, not in a list: Stack<Layers<Entry, ...>>.
template <class Entry> struct StackTakesLists;

/// True when `Layer` can stand on `Below`.
template <class Layer, class Below>
concept FitsOn = Heap<Below> && requires { typename Layer::template Over<Below>; };

namespace detail {

template <class Layer> consteval const char* needs_of() {
  if constexpr (Heap<Layer>) return "nothing below: it is a source, and ends its list";
  else if constexpr (requires { Layer::kNeeds; }) return Layer::kNeeds;
  else return "what the requires-clause of its template Over says, if it has one";
}

/// What a layer makes, when that is a heap; else one error that says what it lacks.
template <class Layer, class Made> struct Makes {
  using type = Made;
  static constexpr bool kHasFacts = requires { typename Made::Thread; typename Made::Classes; Progress(Made::kProgress); };
  static_assert(kHasFacts, "a layer's Over has public Thread, Classes and kProgress: derive it from mortise::Passthrough<Below>");
  static_assert(!kHasFacts || requires(Made& h, typename Made::Thread& t, Request r) {
    { h.allocate(t, r) } noexcept -> std::same_as<Block>;
  }, "a layer's Over has a public Block allocate(Thread&, Request) noexcept");
  static_assert(!kHasFacts || requires(Made& h, typename Made::Thread& t, Block b) {
    { h.release(t, b) } noexcept -> std::same_as<void>;
  }, "a layer's Over has a public void release(Thread&, Block) noexcept");
};

template <class Layer, class Below> struct Place : LayerDoesNotFit<Layer, Needs(needs_of<Layer>()), Below> {};
template <class Layer, class Below> requires FitsOn<Layer, Below> struct Place<Layer, Below>
    : Makes<Layer, typename Layer::template Over<Below>> {};

template <class... L> struct Fold : LastEntryIsNoSource<Layers<L...>> {};
template <class Last> struct Fold<Last> : LastEntryIsNoSource<Last> {};
template <Heap Source> struct Fold<Source> { using type = Source; };
template <class First, class Second, class... Rest> struct Fold<First, Second, Rest...> {
  using type = typename Place<First, typename Fold<Second, Rest...>::type>::type;
};

template <class First, class...> struct Concat : StackTakesLists<First> {};
template <class... A> struct Concat<Layers<A...>> { using type = Layers<A...>; };
template <class... A, class Next, class... Rest> struct Concat<Layers<A...>, Next, Rest...> : StackTakesLists<Next> {};
template <class... A, class... B, class... Rest> struct Concat<Layers<A...>, Layers<B...>, Rest...>
    : Concat<Layers<A..., B...>, Rest...> {};

template <class List> struct FoldList;
template <class... L> struct FoldList<Layers<L...>> : Fold<L...> {};

}  // namespace detail

/// One list out of several.
template <class... Lists> using Join = typename detail::Concat<Lists...>::type;

/// The heap that a composition describes.
template <class... Lists> using Stack = typename detail::FoldList<Join<Lists...>>::type;

/// The heap that the layers of a list make over an existing heap type.
template <class List, class Below> struct OnTop;
template <class Below> struct OnTop<Layers<>, Below> { using type = Below; };
template <class First, class... Rest, class Below> struct OnTop<Layers<First, Rest...>, Below> {
  using type = typename detail::Place<First, typename OnTop<Layers<Rest...>, Below>::type>::type;
};

}  // namespace mortise
