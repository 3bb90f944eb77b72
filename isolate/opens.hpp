// opens.hpp: dlopen by way of this library.
//
// The loader looks for a name without a path where the library that calls says, too (its RUNPATH). Behind ours it would look where ours
// does; so what the caller's says is looked for here first.
#pragma once

namespace mortise::isolate {

using Open = void* (*)(const char* file, int mode);

/// dlopen for the code at `caller`.
void* open_as(const void* caller, const char* file, int mode, Open open);

}  // namespace mortise::isolate
