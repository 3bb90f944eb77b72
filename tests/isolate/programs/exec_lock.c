// A record lock over exec, right after the last thread was joined: the new program still has it when all of the old one is gone.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 64 << 20 };

static int lock(int fd, int command, short type) {
  struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
  return fcntl(fd, command, &whole) == 0 ? whole.l_type : -1;
}
static void* write_all(void* memory) { return memset(memory, 1, kBytes); }

int main(int count, char** arguments) {
  const char* const path = arguments[1];
  if (count > 2) {
    while (waitpid(-1, NULL, __WALL) > 0) {
    }
    if (fork() == 0) _exit(lock(open(path, O_RDWR), F_GETLK, F_WRLCK) == F_UNLCK);
    int status;
    wait(&status);
    printf("lost: %d\n", WEXITSTATUS(status));
    return 0;
  }
  const int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || lock(fd, F_SETLK, F_WRLCK) < 0) return 1;
  pthread_t thread;
  pthread_create(&thread, NULL, write_all, malloc(kBytes));
  pthread_join(thread, NULL);
  execl("/proc/self/exe", arguments[0], path, "again", NULL);
  return 2;
}
