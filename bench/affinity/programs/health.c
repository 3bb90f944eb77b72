/* Villages in a tree, patients who wait, are seen, and are sent on: health LEVELS STEPS SEED. A patient and the cell of the list
 * that names him are allocated one after the other, are of one size class, and are used together: whoever parts them loses.
 * After Olden's health [Rogers95]; written anew. */
#include <stdio.h>
#include <stdlib.h>

typedef struct Patient {
  int hospitals, time, left;
  struct Village* home;
} Patient;
typedef struct Cell {
  struct Cell *next, *previous;
  Patient* patient;
} Cell;
typedef struct Village {
  struct Village* child[4];
  struct Village* parent;
  Cell waiting, seen, treated, up;
  int free_staff, label;
  unsigned long seed;
} Village;

static unsigned long seed_of_all;

static void add(Cell* list, Cell* c) {
  c->next = NULL;
  while (list->next) list = list->next; /* at the end, as the original does: every cell on the way is touched */
  list->next = c;
  c->previous = list;
}
static void take(Cell* c) {
  c->previous->next = c->next;
  if (c->next) c->next->previous = c->previous;
}
static unsigned long random_of(Village* v) {
  v->seed = v->seed * 6364136223846793005ul + 1442695040888963407ul;
  return v->seed >> 33;
}

static Village* settle(int level, int label, Village* parent) {
  if (level == 0) return NULL;
  Village* v = calloc(1, sizeof *v);
  v->parent = parent;
  v->label = label;
  v->seed = (unsigned long)label * 2654435761ul + seed_of_all;
  v->free_staff = 1 << (level - 1);
  for (int i = 0; i < 4; ++i) v->child[i] = settle(level - 1, label * 4 + i + 1, v);
  return v;
}

static void fall_ill(Village* v) {
  if (random_of(v) % 10 >= 3) return;
  Patient* p = malloc(sizeof *p);
  Cell* c = malloc(sizeof *c);
  p->hospitals = p->time = p->left = 0;
  p->home = v;
  c->patient = p;
  add(&v->waiting, c);
}

static void step(Village* v) {
  if (!v) return;
  for (int i = 0; i < 4; ++i) {
    step(v->child[i]);
    if (!v->child[i]) continue;
    for (Cell *c = v->child[i]->up.next, *next; c; c = next) {
      next = c->next;
      take(c);
      add(&v->waiting, c);
    }
  }
  for (Cell *c = v->treated.next, *next; c; c = next) {
    next = c->next;
    if (--c->patient->left > 0) continue;
    take(c);
    ++v->free_staff;
    free(c->patient);
    free(c);
  }
  for (Cell *c = v->seen.next, *next; c; c = next) {
    next = c->next;
    ++c->patient->time;
    if (--c->patient->left > 0) continue;
    take(c);
    if (!v->parent || random_of(v) % 10) {
      c->patient->left = 10;
      add(&v->treated, c);
    } else {
      ++v->free_staff;
      add(&v->up, c);
    }
  }
  for (Cell *c = v->waiting.next, *next; c; c = next) {
    next = c->next;
    ++c->patient->time;
    if (v->free_staff == 0) continue;
    --v->free_staff;
    ++c->patient->hospitals;
    c->patient->left = 3;
    take(c);
    add(&v->seen, c);
  }
  if (!v->child[0]) fall_ill(v);
}

static long total(const Village* v) {
  if (!v) return 0;
  long n = 0;
  for (int i = 0; i < 4; ++i) n += total(v->child[i]);
  for (const Cell* list[] = {v->waiting.next, v->seen.next, v->treated.next, v->up.next}, **l = list; l < list + 4; ++l)
    for (const Cell* c = *l; c; c = c->next) n += c->patient->time + c->patient->hospitals;
  return n;
}

int main(int argc, char** argv) {
  const int levels = argc > 1 ? atoi(argv[1]) : 9, steps = argc > 2 ? atoi(argv[2]) : 40;
  seed_of_all = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
  Village* v = settle(levels, 0, NULL);
  for (int i = 0; i < steps; ++i) step(v);
  printf("%ld\n", total(v));
  return 0;
}
