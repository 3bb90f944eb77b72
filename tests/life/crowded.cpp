// Fills a profile's tables: more call stacks and more live blocks than it begins with room for; then leaks at one more place.
#include <stdlib.h>

namespace {

constexpr unsigned kStacks = 20'000, kBlocks = 1'700'000;
void* held[kBlocks + 100];
unsigned count = 0;

}  // namespace

extern "C" {
[[gnu::noinline]] void turn_left(unsigned way, unsigned turns);
[[gnu::noinline]] void turn_right(unsigned way, unsigned turns);

/// One stack for each way through `turns` turns.
[[gnu::noinline]] void walk(unsigned way, unsigned turns) {
  if (turns == 0) free(malloc(10));
  else if (way & 1) turn_left(way >> 1, turns - 1);
  else turn_right(way >> 1, turns - 1);
  asm volatile("");  // so that no call above is a jump
}
void turn_left(unsigned way, unsigned turns) {
  walk(way, turns);
  asm volatile("");
}
void turn_right(unsigned way, unsigned turns) {
  walk(way, turns);
  asm volatile("");
}
[[gnu::noinline]] void leak_crowd() {
  for (unsigned i = 0; i < kBlocks; ++i) held[count++] = malloc(16);
}
[[gnu::noinline]] void leak_last() {
  for (unsigned i = 0; i < 100; ++i) held[count++] = malloc(1'000);
}
}

int main() {
  for (unsigned way = 0; way < kStacks; ++way) walk(way, 15);
  leak_crowd();
  leak_last();
}
