// What is checked of every block that comes and goes: once for all stacks, so it may take the compiler's time and save that of the tests.
#include "tests/property/model.hpp"
#include "tests/support/bytes.hpp"

namespace mortise::test {

namespace {

/// All of it, or of much a byte here and there.
bool is_zeroed(const std::byte* p, std::size_t bytes) {
  if (bytes <= 8192) return all_bytes_are(std::byte{0}, p, bytes);
  for (std::size_t i = 0; i < bytes; i += 509)
    if (p[i] != std::byte{0}) return false;
  return true;
}

}  // namespace

void Ledger::take(Block b, Request r) {
  if (!is_aligned(b.ptr, r.align)) FAIL() << "a block of " << r.size << " at alignment " << r.align;
  if (b.size < r.size) FAIL() << "a block of " << b.size << " bytes for " << r.size;
  if (!places.add({b.ptr, b.end()})) FAIL() << "overlaps a live block";
  if (r.zeroed && !is_zeroed(b.ptr, r.size)) FAIL() << "a block that should be zeroed is not";
  const std::uint64_t tag = random.next();
  Contents::write(b, tag);
  held.push_back({b, tag});
  live_bytes += b.size;
}

Ledger::Held Ledger::give(std::size_t i) {
  const Held h = held[i];
  held[i] = held.back();
  held.pop_back();
  places.remove(h.block.ptr);
  live_bytes -= h.block.size;
  if (!Contents::are(h.block, h.tag, h.block.size)) ADD_FAILURE() << "the contents of a live block changed";
  return h;
}

}  // namespace mortise::test
