/* Allocates through a wrapper with a frame pointer on stacks that are not the thread's: on a coroutine's, which lies in a block,
 * and on one in a mapping, of which the last page is not the end of what is mapped. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { kStack = 1 << 20, kHeld = 2000 };
static void* held[kHeld];
static ucontext_t back, coroutine;

__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void* allocate(size_t n) {
  void* const p = malloc(n);
  if (!p) abort();
  return p;
}

static void body(void) {
  for (int i = 0; i < 200000; ++i) allocate(24 + (i & 3)); /* so many that contexts are told apart */
  for (int round = 0; round < 100; ++round)
    for (int i = 0; i < kHeld; ++i) {
      free(held[i]);
      held[i] = allocate(24 + (i & 3));
    }
}

static void run_on(void* stack) {
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = kStack;
  coroutine.uc_link = &back;
  makecontext(&coroutine, body, 0);
  swapcontext(&back, &coroutine);
}

int main(void) {
  void* const stack = malloc(kStack);
  void* const mapped = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!stack || mapped == MAP_FAILED) return 2;
  run_on(stack);
  run_on(mapped);
  body();
  puts("back");
  return 0;
}
