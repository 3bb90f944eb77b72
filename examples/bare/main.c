/* A program without an operating system and without a libc, whose two cores share one heap: HEAP is tlsf or tlsfcc. Says
   what it found by semihosting and ends with 0 when all held. */
#include <stddef.h>
#include <stdint.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define HEAP_(verb) JOIN(HEAP, verb)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#include TEXT(HEAP.h)

enum { BLOCKS = 40, ROUNDS = 300, BYTES_MAX = 600, PRINT = 4, EXIT = 0x20 };

long host(int what, void* block);
int wake_second_core(void);

/* What the compiler may ask for. */
void* memset(void* to, int byte, size_t n) {
  for (volatile unsigned char* at = to; n--; ++at) *at = (unsigned char)byte;
  return to;
}
void* memcpy(void* to, const void* from, size_t n) {
  volatile unsigned char* at = to;
  for (const unsigned char* source = from; n--;) *at++ = *source++;
  return to;
}

static void say(const char* text) { host(PRINT, (void*)text); }
static _Noreturn void end(int status) {
  uint64_t why[2] = {0x20026, (uint64_t)status}; /* ADP_Stopped_ApplicationExit */
  host(EXIT, why);
  for (;;) {
  }
}
static void check(int holds, const char* what) {
  if (holds) return;
  say("not so: ");
  say(what);
  say("\n");
  end(1);
}

void HEAP_(on_fault)(const char* fault, void* p) {
  (void)p;
  say("fault: ");
  say(fault);
  say("\n");
  end(2);
}

/* Allocates, fills, checks and frees, in an order that differs from core to core. */
static void work(unsigned core) {
  unsigned char* block[BLOCKS] = {0};
  size_t bytes[BLOCKS] = {0};
  uint32_t random = 12345 + core;
  for (int i = 0; i < ROUNDS * BLOCKS; ++i) {
    random = random * 1664525u + 1013904223u;
    const unsigned slot = (random >> 8) % BLOCKS;
    for (size_t at = 0; at < bytes[slot]; ++at) check(block[slot][at] == (unsigned char)(slot + core * 100), "nobody else wrote");
    HEAP_(free)(block[slot]);
    bytes[slot] = (random >> 16) % BYTES_MAX;
    block[slot] = HEAP_(malloc)(bytes[slot]);
    check(block[slot] != NULL && (uintptr_t)block[slot] % 16 == 0, "a block");
    memset(block[slot], (int)(slot + core * 100), bytes[slot]);
  }
  for (int i = 0; i < BLOCKS; ++i) HEAP_(free)(block[i]);
}

static int second_is_done;
void core_1(void) {
  work(1);
  __atomic_store_n(&second_is_done, 1, __ATOMIC_RELEASE);
}

void core_0(void) {
  check(HEAP_(malloc)(1 << 20) == NULL, "64 KiB hold no mebibyte");
  unsigned char* zeroed = HEAP_(calloc)(100, 10);
  for (int i = 0; i < 1000; ++i) check(zeroed[i] == 0, "calloc is zero");
  zeroed = HEAP_(realloc)(zeroed, 5000);
  check(zeroed != NULL && HEAP_(usable_size)(zeroed) >= 5000, "a larger block");
  HEAP_(free)(zeroed);
  check((uintptr_t)HEAP_(aligned_alloc)(1024, 10) % 1024 == 0, "an aligned block");
  const size_t before = HEAP_(live_bytes)();
#ifdef SECOND_CORE
  check(wake_second_core() == 0, "a second core");
  work(0);
  while (!__atomic_load_n(&second_is_done, __ATOMIC_ACQUIRE)) {
  }
#else
  work(0);
#endif
  check(HEAP_(live_bytes)() == before, "every block came back");
  int count = 0;
  while (HEAP_(malloc)(1000)) ++count;
  check(count > 40, "memory runs out late");
  say(TEXT(HEAP) " holds\n");
#ifdef CRIME
  HEAP_(free)(&count);
#endif
  end(0);
}
