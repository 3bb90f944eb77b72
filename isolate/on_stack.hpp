// on_stack.hpp: running one function on another stack, for the moments when the current stack is being replaced or
// copied.
#pragma once

namespace mortise::isolate {

/// Calls `function(argument)` with the stack pointer at `stack_top` and returns what it returns.
extern "C" long mortise_isolate_call_on_stack(long (*function)(void*), void* argument, void* stack_top);

}  // namespace mortise::isolate
