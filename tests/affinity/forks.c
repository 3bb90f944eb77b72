/* Forks children that do some work and end by exit, while threads walk lists. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 3, kChildren = 200, kNodes = 20000 };
struct node {
  struct node* next;
  long value;
};
static volatile int is_over;

static struct node* built(void) {
  struct node* list = NULL;
  for (int i = 0; i < kNodes; ++i) {
    struct node* const n = malloc(sizeof *n);
    n->next = list, n->value = i;
    list = n;
  }
  return list;
}
static void* walk(void* forever) {
  const struct node* const list = built();
  volatile long sum = 0;
  for (long round = 0; forever ? !is_over : round < 20000; ++round)
    for (const struct node* n = list; n; n = n->next) sum = sum + n->value;
  return NULL;
}

int main(void) {
  pthread_t thread[kThreads];
  int failed = 0;
  for (int i = 0; i < kThreads; ++i) pthread_create(&thread[i], NULL, walk, &thread);
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    if (!child) exit((i == kChildren - 1 && walk(NULL)) ? 1 : 0);
    int status;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  is_over = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(thread[i], NULL);
  printf("%d failed\n", failed);
  return 0;
}
