// The link that a free block carries in its own first word while a bin or queue holds it.
#pragma once

#include "mortise/sync/atomics.hpp"

namespace mortise {

/// Lies at the start of a free block. The word is atomic because a slow pop may still read it when the block already
/// belongs to somebody else; what that pop then read is thrown away.
struct FreeLink {
  Atomic<FreeLink*> next;
};

}  // namespace mortise
