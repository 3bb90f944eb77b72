// rewrites: keeps its code writable, allocates, and then changes a function that lies beside the calls.
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define IN_ONE_PAGE [[gnu::noinline, gnu::section("rewritten"), gnu::aligned(64)]]

struct Item {
  Item *next, *other;
  long more[4];
};
static Item* kept = nullptr;

IN_ONE_PAGE static void take() {
  auto* const item = static_cast<Item*>(malloc(sizeof(Item)));
  item->next = item->other = kept;
  kept = item;
}
IN_ONE_PAGE static int answer() {
  int result;
  asm volatile("movl $1, %0" : "=r"(result));
  return result;
}

int main() {
  auto* const code = reinterpret_cast<unsigned char*>(&answer);
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(&take) & ~std::uintptr_t{4095};
  if (mprotect(reinterpret_cast<void*>(first), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return perror("mprotect"), 2;
  for (int i = 0; i < 20000; ++i) take();
  for (int i = 0; i < 16; ++i) {
    if (code[i] != 1 || code[i + 1] != 0) continue;
    code[i] = 42;
    break;
  }
  printf("%d\n", answer());
}
