// Opens a plugin with RTLD_DEEPBIND: plugins FILE. Blocks made there are freed here.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int, char** argv) {
  void* outer = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  if (!outer) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  auto* make = reinterpret_cast<void* (*)(unsigned long)>(dlsym(outer, "outer_make"));
  for (unsigned long n = 10; n < 1'000'000; n *= 3) {
    void* p = make(n);
    if (!p) return 1;
    free(p);
  }
  puts("ok");
}
