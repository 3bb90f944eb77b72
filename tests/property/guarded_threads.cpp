// Eight real threads on one heap, for the stacks with guards: what a guard notes of a block, or a thread's quarantine tells whoever counts,
// is read and written by several threads. If this failed, a program with threads would be accused of what another thread did.
#include "tests/support/guard_stacks.hpp"

#define MORTISE_TEST_STACKS GuardStacks
#include "tests/property/threads.cpp"
