// The plugin of a plugin: allocates, and says whose malloc it is bound to.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" void* inner_make(unsigned long n) {
  Dl_info where{};
  dladdr(reinterpret_cast<void*>(&malloc), &where);
  printf("inner uses %s\n", where.dli_fname);
  return malloc(n);
}
