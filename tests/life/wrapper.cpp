// A library that wraps the program's main, as sandboxes do (minijail): preloaded in front, it defines libc's __libc_start_main.
#include <dlfcn.h>

using Part = void();
using Main = int(int, char**, char**);

extern "C" int __libc_start_main(Main* main, int count, char** arguments, Part* init, Part* fini, Part* end_loader, void* stack) {
  auto* const next = reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(main, count, arguments, init, fini, end_loader, stack);
}
