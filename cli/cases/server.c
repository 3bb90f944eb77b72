// A server that idles between bursts: BURSTS times it serves OPERATIONS requests with up to LIVE blocks of 16 B to
// 200 KB, frees most of them, and waits IDLE milliseconds under light traffic. What an allocator does with freed
// memory, and when, shows in the average of its memory, not in its peak. Usage: server BURSTS OPERATIONS IDLE LIVE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state = 88172645463325252ULL;
static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static size_t request_bytes(void) {
  uint64_t kind = draw() % 1000;
  if (kind < 900) return 16 + draw() % 496;
  return kind < 999 ? 512 + draw() % 7680 : 8192 + draw() % 196608;
}

static void* serve(void) {
  size_t bytes = request_bytes();
  unsigned char* block = malloc(bytes);
  if (block == NULL) exit(1);
  memset(block, 1, bytes < 4096 ? bytes : 4096);
  return block;
}

int main(int count, char** values) {
  if (count != 5) return 2;
  int bursts = atoi(values[1]), operations = atoi(values[2]), idle = atoi(values[3]);
  size_t live = (size_t)atol(values[4]), served = 0;
  void** blocks = calloc(live, sizeof *blocks);
  if (blocks == NULL) return 1;
  for (int burst = 0; burst < bursts; burst++) {
    for (int i = 0; i < operations; i++, served++) {
      size_t place = draw() % live;
      free(blocks[place]);
      blocks[place] = serve();
    }
    for (size_t i = 0; i < live; i++)
      if (draw() % 100 < 85) {
        free(blocks[i]);
        blocks[i] = NULL;
      }
    for (int tick = 0; tick < idle / 10; tick++) {
      for (int i = 0; i < 20; i++, served++) {
        free(blocks[i]);
        blocks[i] = serve();
      }
      nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
  }
  printf("%zu\n", served);
  return 0;
}
