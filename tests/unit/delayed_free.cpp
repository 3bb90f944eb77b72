// If this failed, a block that a signal handler released while its thread ended would be lost: it would lie in a quarantine that nobody
// looks into again.
#include "mortise/guard/delayed_free.hpp"

#include "tests/support/ledger.hpp"

namespace mortise::test {
namespace {

#if defined(__x86_64__)

/// All fit, so that no handler drains what it has interrupted half-way.
TEST(DelayedFree, AReleaseInASignalHandlerMeetsNothingHalfDone) {
  release_at_each_instruction<DelayedFree<1_KiB, order::Fifo, fills::Untouched, 16>::Over<Ledger>>();
}

#endif

}  // namespace
}  // namespace mortise::test
