/* Records with a part of another size: parts [CHURN [COUNT [ROUNDS [PART_BYTES [NEEDED]]]]]. COUNT records grow, CHURN times as many are
 * replaced at random, then all are visited in random order, each with its part. NEEDED 1: the part says which is the next one, as
 * a key does; 0: the next one can be fetched meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Record {
  struct Record* next[2];
  long* part;
} Record;
static size_t words = 6;

static unsigned long long state = 88172645463325252ull;
static unsigned long draw(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned long)(state >> 11);
}
static Record* make(long key) {
  Record* const r = malloc(sizeof *r);
  long* const p = malloc(words * sizeof *p);
  for (size_t i = 0; i < words; ++i) p[i] = key + (long)i;
  r->part = p, r->next[0] = r->next[1] = NULL;
  return r;
}
static void drop(Record* r) {
  free(r->part);
  free(r);
}
int main(int argc, char** argv) {
  const unsigned long churn = argc > 1 ? strtoul(argv[1], NULL, 10) : 2;
  const unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 300000, rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 10;
  words = argc > 4 ? strtoul(argv[4], NULL, 10) / sizeof(long) : 6;
  const long needed = argc > 5 ? atol(argv[5]) : 1;
  if (!count || !words) return fprintf(stderr, "usage: parts [CHURN [COUNT [ROUNDS [PART_BYTES [NEEDED]]]]]\n"), 2;
  Record** const at = calloc(count, sizeof *at);
  if (!at) return 1;
  for (unsigned long i = 0; i < count; ++i) at[i] = make((long)i);
  for (unsigned long i = 0; i < churn * count; ++i) {
    const unsigned long k = draw() % count;
    drop(at[k]);
    at[k] = make((long)(i & 0xffff));
  }
  for (unsigned long i = count; i > 1; --i) { /* the order in which they are visited */
    const unsigned long k = draw() % i;
    Record* const r = at[i - 1];
    at[i - 1] = at[k], at[k] = r;
  }
  for (unsigned long i = 0; i + 1 < count; ++i) at[i]->next[0] = at[i]->next[1] = at[i + 1];
  long sum = 0;
  for (unsigned long n = 0; n < rounds; ++n)
    for (const Record* r = at[0]; r; r = r->next[r->part[n % words] & needed]) sum += r->part[n % words];
  printf("%ld\n", sum);
  return 0;
}
