// A plugin that opens another: libouter.so finds libinner.so by its own RUNPATH ($ORIGIN/inside).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" void* outer_make(unsigned long n) {
  void* inner = dlopen("libprogram-life-inner.so", RTLD_NOW | RTLD_DEEPBIND);
  if (!inner) {
    fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  auto* make = reinterpret_cast<void* (*)(unsigned long)>(dlsym(inner, "inner_make"));
  return make ? make(n) : nullptr;
}
