// A document: elements with attributes, whose values are texts of the size of an element, and which alone lead from text to element. And a
// record with two lists of one size, to which all items point back: they hang on one owner, and are two structures.
#include <stdio.h>
#include <stdlib.h>

struct element {
  struct element* next;
  struct attribute* attributes;
  long number, more[3];
};
struct attribute {
  struct element* owner;
  struct text* value;
  long name[8];
};
struct text {
  struct attribute* parent;
  long value, more[4];
};
struct item {
  struct item* next;
  struct record* owner;
  long value, more[8];
};
struct record {
  struct item *first, *second;
};
struct element* document;

__attribute__((noinline)) static struct text* text_of(struct attribute* parent, long value) {
  struct text* t = malloc(sizeof *t);
  t->value = value;
  t->parent = parent;
  return t;
}
__attribute__((noinline)) static struct attribute* attribute_of(struct element* owner, long value) {
  struct attribute* a = malloc(sizeof *a);
  a->owner = owner;
  a->value = text_of(a, value);
  return a;
}
__attribute__((noinline)) static void push(struct item** list, struct record* owner, long value) {
  struct item* i = malloc(sizeof *i);
  i->owner = owner, i->next = *list, i->value = value;
  *list = i;
}
__attribute__((noinline)) static void push_other(struct item** list, struct record* owner, long value) {
  struct item* i = malloc(sizeof *i);
  i->owner = owner, i->next = *list, i->value = value + 1;
  *list = i;
}

int main(void) {
  struct record* record = calloc(1, sizeof *record);
  for (long i = 0; i < 5000; ++i) {
    struct element* e = malloc(sizeof *e);
    e->number = i;
    e->next = document;
    e->attributes = attribute_of(e, i);
    document = e;
    push(&record->first, record, i);
    push_other(&record->second, record, i);
    if (i % 3 == 0) push_other(&record->second, record, i);
  }
  long total = 0;
  for (const struct element* e = document; e; e = e->next) total += e->number + e->attributes->value->value;
  for (const struct item* i = record->first; i; i = i->next) total += i->value;
  for (const struct item* i = record->second; i; i = i->next) total += i->value;
  printf("%ld\n", total);
  return 0;
}
