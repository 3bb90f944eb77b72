// Inlining marks: the only place that knows how a compiler spells them.
//
// A hit path is MORTISE_HOT: inlined through every layer, so that a stack of layers costs what one hand-written function costs.
// A miss is MORTISE_COLD and in tail position: `if (...) [[unlikely]] return slow(...);`, so that it needs no frame on the hit path.
#pragma once

#define MORTISE_HOT [[gnu::always_inline]] inline
#define MORTISE_COLD [[gnu::noinline, gnu::cold]]
#define MORTISE_EXPORT [[gnu::visibility("default")]]
