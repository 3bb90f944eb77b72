// Commits one crime against the heap: crime NAME; crime --list names them all with their kind.
//
// Prints the pointer that a report must name, commits it, and goes on as an honest program would for a while, so that guards that
// look later get to look. crime NAME trim empties the caches right after the crime, before anything is asked of them. Ends with 0 when nobody noticed and the harm is done, with 10 when nobody noticed and there is none.
#include "crimes.hpp"

namespace crimes {

static bool trims = false;

bool same_block_twice(std::size_t n) {
  if (trims) malloc_trim(0);
  void* got[64];
  bool twice = false;
  for (unsigned i = 0; i < 64; ++i) {
    got[i] = malloc(hidden(n));
    for (unsigned j = 0; j < i; ++j) twice |= got[i] == got[j];
  }
  return twice;
}

bool block_at(const void* target, std::size_t n) {
  for (unsigned i = 0; i < 64; ++i)
    if (malloc(hidden(n)) == target) return true;
  return false;
}

namespace {

/// Enough releases to bring everything out of quarantines of up to a few MB, then the caches are emptied.
void go_on() {
  constexpr unsigned kBlocks = 64;
  void* held[kBlocks] = {};
  std::size_t size = 16;
  for (unsigned i = 0; i < 20000; ++i) {
    void*& one = held[i % kBlocks];
    release(one);
    one = malloc(hidden(size));
    size = size * 5 / 4 + 16;
    if (size > 20000) size = 16;
  }
  for (void* one : held) release(one);
  malloc_trim(0);
}

const Crime* find(const char* name) {
  const struct {
    const Crime* first;
    std::size_t count;
  } lists[] = {{kSpatial, kSpatialCount}, {kTemporal, kTemporalCount}, {kArgument, kArgumentCount}, {kMetadata, kMetadataCount}};
  for (const auto& list : lists) {
    for (const Crime* c = list.first; c < list.first + list.count; ++c) {
      if (!name) printf("%s %s\n", c->name, c->kind);
      else if (strcmp(c->name, name) == 0) return c;
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace crimes

int main(int count, char** words) {
  using namespace crimes;
  if (count == 2 && strcmp(words[1], "--list") == 0) return find(nullptr) != nullptr;
  trims = count == 3 && strcmp(words[2], "trim") == 0;
  const Crime* const crime = count == 2 || trims ? find(words[1]) : nullptr;
  if (!crime) {
    fprintf(stderr, "crime: expected one of the names that crime --list prints, and perhaps trim\n");
    return 2;
  }
  const Harm harm = crime->commit();
  go_on();
  return static_cast<int>(harm);
}
