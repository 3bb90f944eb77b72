// Small functions of the kinds of code that follow an allocation. Compiled at several levels of optimisation; each gets two
// numbers and sixty-four words of memory, and is run for real and by the interpreter.
#include <stdint.h>
#include <string.h>

typedef struct Item {
  struct Item *next, *prev;
  long key;
  int count;
  short tag;
  char name[10];
} Item;

#define SNIPPET(name) __attribute__((noinline)) long name(long a, long b, uint64_t* m)

SNIPPET(arithmetic) {
  long x = a * 37 + b;
  x ^= x >> 7;
  x -= (b << 3) | 5;
  m[0] = (uint64_t)x * 2654435761u;
  m[1] = (uint64_t)a / ((uint32_t)b | 1);
  m[2] = (uint64_t)a % 1000;
  return -x + ~a;
}
SNIPPET(narrow) {
  int8_t c = (int8_t)(a + 3);
  uint16_t s = (uint16_t)(b * 5);
  int i = (int)a - (int)b;
  ((char*)m)[9] = c;
  ((uint16_t*)m)[7] = s;
  ((int*)m)[6] = i >> 2;
  return c + s + (i < 0 ? i : (int)((unsigned)i >> 1));
}
SNIPPET(comparisons) {
  long r = 0;
  r += a < b;
  r += 2 * ((unsigned long)a < (unsigned long)b);
  r += 4 * ((int)a <= (int)b);
  r += 8 * ((uint8_t)a > (uint8_t)b);
  r += 16 * (a == b);
  if ((a & 15) == 0 || (b & 16)) r += 32;
  if (a > 0 && b < 0) r += 64;
  return a >= 0 ? r : -r;
}
SNIPPET(overflow) {
  long x;
  int y;
  unsigned long z;
  long r = __builtin_mul_overflow(a, b, &x);
  r += 2 * __builtin_add_overflow((int)a, (int)b, &y);
  r += 4 * __builtin_sub_overflow((unsigned long)a, (unsigned long)b, &z);
  m[0] = (uint64_t)x, m[1] = (uint64_t)y, m[2] = z;
  return r;
}
SNIPPET(selection) {
  long low = a < b ? a : b, high = a < b ? b : a;
  m[3] = (uint64_t)low, m[4] = (uint64_t)high;
  switch (a & 7) {
    case 0: return low;
    case 1: return high + 1;
    case 2: return low * 3;
    case 3: return high - low;
    case 4: return low ^ high;
    case 5: return (long)m[10];
    default: return 77;
  }
}
SNIPPET(loop) {
  long sum = 0;
  for (long i = 0; i < (a & 31); ++i) sum += (long)m[i & 63] * (i + b);
  return sum;
}
SNIPPET(list_push) {
  Item* item = (Item*)(m + 8);
  Item** head = (Item**)m;
  *head = (Item*)(m + 40);
  (*head)->prev = 0;
  item->key = a, item->count = (int)b, item->tag = (short)(a ^ b);
  item->next = *head, item->prev = 0;
  (*head)->prev = item;
  *head = item;
  return item->next->prev == item;
}
SNIPPET(list_self) {
  Item* item = (Item*)(m + 16);
  item->next = item->prev = item;
  item->key = a;
  memset(item->name, 0, sizeof item->name);
  return (long)(item->next->key - b);
}
SNIPPET(clear) {
  for (int i = 0; i < 24; ++i) m[i] = 0;
  m[a & 15] = (uint64_t)b;
  return (long)m[b & 15];
}
SNIPPET(copy) {
  Item x;
  memcpy(&x, m + 20, sizeof x);
  x.key += a;
  memcpy(m + 30, &x, sizeof x);
  return x.count + b;
}
SNIPPET(structure) {
  struct { Item* first; Item* last; long size, spare; } head = {(Item*)m, (Item*)(m + 5), a, b};
  memcpy(m + 50, &head, sizeof head);
  return (long)m[52] + (long)m[53];
}
static long deep(long n, uint64_t* m) { return n <= 0 ? 1 : (long)(m[n] & 3) + deep(n - 1, m) * 3; }
SNIPPET(recursion) { return deep(a & 3, m) + b; }
static long twice(long x) { return 2 * x; }
static long square(long x) { return x * x; }
SNIPPET(indirect) {
  long (*volatile f)(long) = a & 1 ? twice : square;
  return f(b & 0xffff) + f(3);
}
SNIPPET(tree_insert) {
  struct Node { struct Node *left, *right; long key; } *nodes = (struct Node*)m, *root = nodes;
  root->left = root->right = 0, root->key = 50;
  for (int i = 1; i < 6; ++i) {
    struct Node *n = nodes + i, **p = &root;
    n->left = n->right = 0, n->key = (a >> (4 * i)) & 127;
    while (*p) p = n->key < (*p)->key ? &(*p)->left : &(*p)->right;
    *p = n;
  }
  return root->left ? root->left->key : -b;
}
SNIPPET(bits) {
  uint64_t x = (uint64_t)a;
  x = (x << 13) | (x >> 51);
  m[5] = x & -x;
  m[6] = (x >> (b & 63)) << (b & 31);
  m[7] = (uint64_t)((int64_t)x >> (b & 63));
  ((uint32_t*)m)[20] = (uint32_t)x >> (b & 31);
  return (long)(x & 0xff00) >> 8;
}
