// A heap that ages: blocks whose sizes drift over 12 phases, nine of ten of them freed as the next phase begins, the
// rest kept. First fit, next fit and best fit leave different holes in it. Usage: frag ROUNDS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlocks = 20000, kPhases = 12 };

static uint64_t state = 88172645463325252ULL;
static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

int main(int count, char** values) {
  static unsigned char* blocks[kBlocks];
  int rounds = count > 1 ? atoi(values[1]) : 4;
  uint64_t sum = 0;
  for (int round = 0; round < rounds; round++)
    for (int phase = 0; phase < kPhases; phase++) {
      size_t mean = 64 + 96 * (size_t)(phase * 5 % kPhases);
      for (int i = 0; i < kBlocks; i++) {
        if (draw() % 10 == 0) continue;
        free(blocks[i]);
        size_t bytes = mean / 2 + draw() % mean;
        blocks[i] = malloc(bytes);
        if (blocks[i] == NULL) return 1;
        memset(blocks[i], phase, bytes);
        sum += blocks[i][bytes / 2];
      }
    }
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
