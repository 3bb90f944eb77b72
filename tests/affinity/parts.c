/* Records with a part of another size, allocated in turn and linked; and texts of two sizes that one call asks for. Forks, resizes
 * and releases while it goes on, and prints what it finds everywhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Record {
  struct Record* next;
  long* part;
  long key;
} Record;
static Record* records;
static char* texts[4000];

static __attribute__((noinline)) char* text(long i) {
  char* const t = malloc(i % 2 ? 60 : 90);
  sprintf(t, "text %ld", i);
  return t;
}
static __attribute__((noinline)) void record(long i) {
  Record* const r = malloc(sizeof *r);
  r->part = malloc(6 * sizeof(long));
  for (int k = 0; k < 6; ++k) r->part[k] = i * k;
  r->key = i;
  r->next = records;
  records = r;
}
static long sum(void) {
  long s = 0;
  for (Record* r = records; r; r = r->next) s += r->key ^ r->part[r->key % 6];
  for (int i = 0; i < 4000; ++i) s += texts[i] ? (long)strlen(texts[i]) + texts[i][5] : 0;
  return s;
}
int main(void) {
  for (long i = 0; i < 2000; ++i) record(i);
  for (long i = 0; i < 4000; ++i) texts[i] = text(i);
  for (long i = 0; i < 4000; i += 3) free(texts[i]), texts[i] = NULL;
  for (long i = 1; i < 4000; i += 9) texts[i] = realloc(texts[i], 200);
  for (long i = 2; i < 4000; i += 9) texts[i] = realloc(texts[i], 12);
  Record** at = &records;
  for (long i = 0; *at; ++i) {
    Record* const r = *at;
    if (i % 5) {
      at = &r->next;
      continue;
    }
    *at = r->next;
    free(r->part);
    free(r);
  }
  const pid_t child = fork();
  if (child == 0) {
    for (long i = 0; i < 500; ++i) record(i);
    _exit(sum() % 64);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("%d ", WEXITSTATUS(status));
  for (long i = 0; i < 3000; ++i) record(i);
  printf("%ld\n", sum());
  return 0;
}
