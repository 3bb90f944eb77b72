/* Goes to another folder before it allocates anything, as daemons do. */
#include <stdlib.h>
#include <unistd.h>

struct node {
  struct node* next;
  long value[2];
};

int main(void) {
  struct node* list = NULL;
  if (chdir("/")) return 2;
  for (int i = 0; i < 50000; ++i) {
    struct node* const n = malloc(sizeof *n);
    n->next = list;
    list = n;
  }
  return list == NULL;
}
