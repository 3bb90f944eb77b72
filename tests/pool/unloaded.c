/* If this fails, a plug-in that uses pools ends its host when it is closed: the kernel looks at the descriptor of the restartable
 * sequence that a thread ran last whenever it switches back to the thread, long after, and finds it gone. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#include "mortise/pool.h"

#define FIND(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(library, #name)

int main(int count, char** arguments) {
  if (count != 2) return fprintf(stderr, "unloaded: expected the library\n"), 2;
  for (int round = 0; round < 50; ++round) {
    void* const library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    FIND(mo_pool_create);
    FIND(mo_pool_try_acquire);
    FIND(mo_pool_release);
    FIND(mo_pool_destroy);
    mo_pool* const pool = p_mo_pool_create(&(mo_pool_options){.size = 64, .maximum = 8});
    void* block;
    if (!pool || !(block = p_mo_pool_try_acquire(pool))) return 1;
    p_mo_pool_release(pool, block);
    p_mo_pool_destroy(pool);
    dlclose(library);
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* the thread is switched away and comes back */
  }
  return 0;
}
