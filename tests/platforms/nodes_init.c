/* The first program of an emulated machine: runs /program on /hslab.so, with and without a heap for each node, and turns the machine off. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(const char* path) {
  char text[256];
  FILE* const file = fopen(path, "r");
  if (file && fgets(text, sizeof text, file)) printf("%s: %s", path, text);
  if (file) fclose(file);
}

static void run(const char* what) {
  printf("run %s\n", what);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    char* const arguments[] = {"/program", NULL};
    char nodes[32];
    snprintf(nodes, sizeof nodes, "MORTISE_NODES=%s", what);
    char* const environment[] = {"LD_PRELOAD=/hslab.so", "MORTISE_VERBOSE=1", nodes, NULL};
    execve(arguments[0], arguments, environment);
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

int main(void) {
  mount("none", "/sys", "sysfs", 0, "");
  mount("none", "/proc", "proc", 0, "");
  show("/sys/devices/system/node/has_cpu");
  show("/sys/devices/system/node/node0/cpulist");
  show("/sys/devices/system/node/node1/cpulist");
  run("auto");
  run("off");
  printf("end\n");
  fflush(stdout);
  sync();
  reboot(RB_POWER_OFF);
  return 0;
}
