// Memory runs out: limits SIZE. Allocates blocks of SIZE until there are no more, and goes on living with what it gets
// back.
#include <new>

#include "life.hpp"

int main(int argc, char** argv) {
  const std::size_t size = argc > 1 ? strtoul(argv[1], nullptr, 10) : 100;
  struct Link {
    Link* next;
  };
  Link* first = nullptr;
  std::size_t count = 0;
  errno = 0;
  for (void* p; (p = malloc(size)); ++count) {
    memset(p, 0x11, size < 4096 ? size : 4096);
    first = new (p) Link{first};
  }
  EXPECT(errno == ENOMEM);
  EXPECT(count > 0);
  errno = 0;
  EXPECT(calloc(1, size) == nullptr && errno == ENOMEM);
  EXPECT(realloc(first, size * 100 + (16 << 20)) == nullptr && errno == ENOMEM);
  EXPECT(aligned_alloc(4096, 256 << 20) == nullptr);
  // Every other block goes back; as many can be had again, or of a size a little smaller where fits are rounded.
  std::size_t freed = 0;
  for (Link* l = first; l && l->next; l = l->next) {
    Link* gone = l->next;
    l->next = gone->next;
    free(gone);
    ++freed;
  }
  std::size_t again = 0;
  for (void* p; again < freed && ((p = malloc(size)) || (p = malloc(size - size / 8))); ++again)
    first = new (p) Link{first};
  EXPECT(again >= freed - freed / 8);  // what lies in caches of other sizes or cores may be missing
  while (first) {
    Link* next = first->next;
    free(first);
    first = next;
  }
  life::Churn churn(1, 500);
  churn.steps(2000);
  churn.end();
  printf("%zu blocks\n", count);
}
