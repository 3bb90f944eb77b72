// Compositions: lists of layers, read in the order a request travels, folded into one type.
//
//   using Mine = Stack<Layers<ThreadCache<>, Slab<>, PageIndex, MmapHeap<>>>;
//
// Lists are values of their own, so that a variant prepends: Stack<Layers<TailChecksum<>>, HslabLayers>.
// A layer that does not fit on what is below it is refused here, and the first line of the error names both.
#pragma once

#include "mortise/core/layer.hpp"

namespace mortise {

template <class... L> struct Layers {};

/// Left undefined on purpose: it appears in an error message when `Layer` does not fit on `Below`. What the layer wants is
/// written in the requires-clause of its `Over`, and in words in its `kNeeds`.
template <class Layer, class Below> struct LayerDoesNotFit;

/// Left undefined on purpose: it appears when the last entry of a stack is not a source, such as MmapHeap.
template <class Last> struct LastEntryIsNoSource;

/// True when `Layer` can stand on `Below`.
template <class Layer, class Below>
concept FitsOn = Heap<Below> && requires { typename Layer::template Over<Below>; };

namespace detail {

template <class Layer, class Below> struct Place : LayerDoesNotFit<Layer, Below> {};
template <class Layer, class Below> requires FitsOn<Layer, Below> struct Place<Layer, Below> {
  using type = typename Layer::template Over<Below>;
};

template <class... L> struct Fold;
template <class Last> struct Fold<Last> : LastEntryIsNoSource<Last> {};
template <Heap Source> struct Fold<Source> { using type = Source; };
template <class First, class Second, class... Rest> struct Fold<First, Second, Rest...> {
  using type = typename Place<First, typename Fold<Second, Rest...>::type>::type;
};

template <class... Lists> struct Concat;
template <class... A> struct Concat<Layers<A...>> { using type = Layers<A...>; };
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
