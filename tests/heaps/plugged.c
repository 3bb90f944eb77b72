/* If this fails, a plug-in with heaps in it ends its host when it is closed: the thread that gives idle memory back runs code that
 * is gone, and so do fork's handlers. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int count, char** arguments) {
  if (count != 2) return fprintf(stderr, "plugged: expected the plug-in\n"), 2;
  for (int round = 0; round < 5; ++round) {
    void* const library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    int (*use)(void);
    *(void**)&use = dlsym(library, "use_a_heap");
    if (!use || use()) return 1;
    dlclose(library);
    nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL); /* the thread wakes up and looks */
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status) return 1;
  }
  return 0;
}
