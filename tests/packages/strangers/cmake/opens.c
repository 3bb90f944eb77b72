// A program that is linked statically, and opens a library nevertheless: it is told that it cannot.
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
  puts(dlopen("libm.so.6", RTLD_NOW) ? "opened" : dlerror() ? "told" : "no word");
  return 0;
}
