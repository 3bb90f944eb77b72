/* host PLUGIN: opens it, lets it work, closes it, and lives on. */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char** words) {
  for (int i = 0; i < 20 && count == 2; ++i) {
    void* plugin = dlopen(words[1], RTLD_NOW);
    if (!plugin) return puts(dlerror()), 1;
    size_t (*work)(void) = (size_t(*)(void))dlsym(plugin, "work");
    if (work() != 499500) return 2;
    dlclose(plugin);
    for (int k = 0; k < 100; ++k) sched_yield(); /* the kernel looks where the thread was */
    if (fork() == 0) _exit(0);
    wait(NULL);
  }
  return puts("alive"), 0;
}
