/* Leaks at two places and frees at a third: something for `mortise profile` to find. */
#include <stdlib.h>
#include <string.h>

static void* copy(const char* text) { return strcpy(malloc(strlen(text) + 1000), text); }

static void forget_names(void) {
  for (int i = 0; i < 5000; ++i) copy("a name that nobody frees");
}
static void forget_tables(void) {
  for (int i = 0; i < 10; ++i) memset(malloc(1000000), 1, 1000000);
}
static void behave(void) {
  for (int i = 0; i < 100000; ++i) free(copy("freed at once"));
}

int main(void) {
  forget_names();
  behave();
  forget_tables();
  return 0;
}
