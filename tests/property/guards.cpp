// Random honest operations on the stacks with guards: none may be reported, and nothing may be lost.
#include "tests/support/guard_stacks.hpp"

#define MORTISE_TEST_STACKS GuardStacks
#include "tests/property/stacks.cpp"
