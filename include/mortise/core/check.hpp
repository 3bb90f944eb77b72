// Assertions in three tiers. Each states one condition.
//
//   MORTISE_CHECK   always on: corruption that would otherwise go on silently. Reports a fault with the block it concerns.
//   MORTISE_ASSERT  debug builds: pre- and postconditions.
//   MORTISE_AUDIT   on demand: inside audits that walk a whole structure.
#pragma once

#include "mortise/core/fault.hpp"

#define MORTISE_CHECK(condition, fault, block) \
  do {                                         \
    if (!(condition)) [[unlikely]]             \
      ::mortise::report((fault), (block));     \
  } while (0)

#ifdef NDEBUG
#define MORTISE_ASSERT(condition) static_cast<void>(sizeof(!(condition)))
#else
#define MORTISE_ASSERT(condition) MORTISE_CHECK(condition, ::mortise::Fault::heap_inconsistent, ::mortise::Block{})
#endif

#define MORTISE_AUDIT(condition) MORTISE_CHECK(condition, ::mortise::Fault::heap_inconsistent, ::mortise::Block{})
