/* If this fails, a plug-in that has pools by the headers ends its host when it is closed, unless its author has read that it must be linked
 * with -z nodelete: the kernel looks at the restartable sequence that the thread ran last, and finds it gone. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

int main(int count, char** arguments) {
  if (count != 3) return fprintf(stderr, "closed: expected two plug-ins\n"), 2;
  for (int round = 0; round < 50; ++round) {
    void* const plugin = dlopen(arguments[1 + round % 2], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 1;
    _Bool (*use)(void) = (__typeof__(use))dlsym(plugin, "use");
    if (!use || !use()) return 1;
    dlclose(plugin);
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* the thread is switched away and comes back */
  }
  return 0;
}
