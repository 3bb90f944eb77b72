// The stacks with guards, through everything they offer. If this failed, a hardened allocator would break an honest program.
#include "tests/support/guard_stacks.hpp"

#define MORTISE_TEST_STACKS GuardStacks
#include "tests/conformance/stacks.cpp"
