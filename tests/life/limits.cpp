// Memory runs out: limits SIZE. Allocates blocks of SIZE until there are no more, and goes on living with what it gets
// back.
#include <initializer_list>
#include <new>

#include "life.hpp"

constexpr unsigned kMoreMax = 4;

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
  // Nor does any other call have much: a profiled heap may have room where only samples lie, and one call in a hundred is a sample.
  unsigned more = 0;
  errno = 0;
  for (void* p; more <= kMoreMax && (p = calloc(1, size)); ++more) {
    EXPECT(life::is_zero(static_cast<unsigned char*>(p), size));
    first = new (p) Link{first};
  }
  EXPECT(more <= kMoreMax && errno == ENOMEM);
  EXPECT(realloc(first, size * 100 + (16 << 20)) == nullptr && errno == ENOMEM);
  EXPECT(aligned_alloc(4096, 256 << 20) == nullptr);
  // Less than it has a block can always be: programs do not look whether that failed.
  errno = 0;
  Link** at = &first;
  for (const std::size_t less : std::initializer_list<std::size_t>{size / 2, size / 8, sizeof(Link), size / 2, size / 3}) {
    void* const p = realloc(*at, less < sizeof(Link) ? sizeof(Link) : less);
    EXPECT(p && errno == 0);
    *at = static_cast<Link*>(p);
    if (less == sizeof(Link) && (*at)->next) at = &(*at)->next;
  }
  // Every other block goes back; as many can be had again.
  std::size_t freed = 0;
  for (Link* l = first; l && l->next; l = l->next) {
    Link* gone = l->next;
    l->next = gone->next;
    free(gone);
    ++freed;
  }
  std::size_t again = 0;
  for (void* p; again < freed && (p = malloc(size)); ++again) first = new (p) Link{first};
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
