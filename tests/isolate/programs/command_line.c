// What /proc, and so ps, shows of the program: its arguments and environment, for each thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t read_all(const char* name, char* text, size_t room) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/%s", syscall(SYS_gettid), name);
  FILE* file = fopen(path, "r");
  const size_t bytes = fread(text, 1, room, file);
  fclose(file);
  return bytes;
}

static void* show(void* who) {
  static char text[1 << 20];
  size_t bytes = read_all("cmdline", text, sizeof text);
  printf("%s:", (const char*)who);
  for (char* argument = text; argument < text + bytes; argument += strlen(argument) + 1)
    printf(" %s", argument == text ? strrchr(argument, '/') : argument);
  bytes = read_all("environ", text, sizeof text);
  printf(", environment %d\n", memmem(text, bytes, "MARK=there", 11) != NULL);
  fflush(stdout);
  return NULL;
}

int main(int count, char** arguments) {
  pthread_t thread;
  strcpy(arguments[1], "changed");
  pthread_create(&thread, NULL, show, "thread");
  pthread_join(thread, NULL);
  show("main");
  if (fork() == 0) return show("child"), 0;
  wait(NULL);
}
