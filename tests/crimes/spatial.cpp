// Writes outside of a block. The block is released afterwards, as an honest program would, and so are its neighbours.
#include "crimes.hpp"

namespace crimes {
namespace {

/// A block between two others of its size; writes `n` bytes at `at` of it.
template <std::size_t kSize, long kAt, std::size_t kLength, int kValue = 0x41> Harm write_outside() {
  char* const before = block(kSize);
  char* const p = block(kSize);
  char* const after = block(kSize);
  announce(p);
  write_at(p, kAt, kLength, kValue);
  release(p);
  release(after);
  release(before);
  return Harm::done;
}

Harm after_calloc() {
  char* const p = static_cast<char*>(calloc(hidden(10), 10));
  announce(p);
  write_at(p, 100);
  release(p);
  return Harm::done;
}
Harm after_aligned() {
  char* const p = static_cast<char*>(aligned_alloc(64, hidden(100)));
  announce(p);
  write_at(p, 100);
  release(p);
  return Harm::done;
}
Harm after_shrinking() {
  char* const p = static_cast<char*>(realloc(block(100), hidden(60)));
  announce(p);
  write_at(p, 60);
  release(p);
  return Harm::done;
}
Harm after_growing() {
  char* const p = static_cast<char*>(realloc(block(100), hidden(500)));
  announce(p);
  write_at(p, 500, 8);
  release(p);
  return Harm::done;
}
Harm found_by_realloc() {
  char* const p = block(100);
  announce(p);
  write_at(p, 100, 8);
  release(realloc(hidden(p), 5000));
  return Harm::done;
}
Harm through_new() {
  char* const p = static_cast<char*>(::operator new(hidden(56)));
  announce(p);
  write_at(p, 56, 4);
  ::operator delete(hidden(p));
  return Harm::done;
}

}  // namespace

const Crime kSpatial[] = {
    {"overflow_1", "spatial", write_outside<24, 24, 1>},
    {"overflow_1_odd_size", "spatial", write_outside<100, 100, 1>},
    {"overflow_by_a_zero", "spatial", write_outside<100, 100, 1, 0>},
    {"overflow_by_a_zero_full_block", "spatial", write_outside<120, 120, 1, 0>},
    {"overflow_4", "spatial", write_outside<100, 100, 4>},
    {"overflow_8", "spatial", write_outside<104, 104, 8>},
    {"overflow_16", "spatial", write_outside<200, 200, 16>},
    {"overflow_into_the_next_block", "spatial", write_outside<64, 64, 64>},
    {"overflow_256", "spatial", write_outside<1000, 1000, 256>},
    {"overflow_a_page", "spatial", write_outside<4000, 4000, 4096>},
    {"overflow_1_medium", "spatial", write_outside<40000, 40000, 1>},
    {"overflow_1_large", "spatial", write_outside<(1 << 20) + 100, (1 << 20) + 100, 1>},
    {"overflow_far_past_a_large_block", "spatial", write_outside<(1 << 20), (1 << 20), (64 << 10) + 4096>},
    {"overflow_that_skips_the_next_bytes", "spatial", write_outside<48, 64, 8>},
    {"underflow_1", "spatial", write_outside<100, -1, 1>},
    {"underflow_8", "spatial", write_outside<104, -8, 8>},
    {"underflow_16", "spatial", write_outside<200, -16, 16>},
    {"overflow_after_calloc", "spatial", after_calloc},
    {"overflow_after_aligned_alloc", "spatial", after_aligned},
    {"overflow_after_realloc_shrank", "spatial", after_shrinking},
    {"overflow_after_realloc_grew", "spatial", after_growing},
    {"overflow_found_by_realloc", "spatial", found_by_realloc},
    {"overflow_through_new", "spatial", through_new},
};
const std::size_t kSpatialCount = sizeof kSpatial / sizeof *kSpatial;

}  // namespace crimes
