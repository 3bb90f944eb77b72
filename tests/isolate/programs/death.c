// Ways for main to end the program: who waited for it may at once take the lock that it had. Told by a parent without threads.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 64 << 20, kThreads = 3 };

static const char* path;
static int try_lock(void) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return fcntl(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), F_SETLK, &whole) == 0;
}

static pthread_barrier_t written;
static void* stay(void* memory) {
  memset(memory, 1, kBytes);
  pthread_barrier_wait(&written);
  for (;;) pause();
}
static void end(const char* way) {
  if (!strcmp(way, "exit")) exit(3);
  if (!strcmp(way, "exit_group")) syscall(SYS_exit_group, 4);
  if (!strcmp(way, "abort")) abort();
  if (!strcmp(way, "raise")) raise(SIGTERM);
  if (!strcmp(way, "crash")) *(volatile int*)8 = 1;
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, NULL);
  raise(SIGTERM);  // blocked, or harmless: ends nobody
  raise(SIGWINCH);
  sigprocmask(SIG_UNBLOCK, &term, NULL);
}

int main(int count, char** arguments) {
  path = arguments[1];
  if (fork() == 0) {
    char* const memory = malloc(kBytes);
    if (!try_lock()) _exit(2);
    pthread_barrier_init(&written, NULL, kThreads + 1);
    for (int i = 0; i < kThreads; ++i) {
      pthread_t thread;
      pthread_create(&thread, NULL, stay, memory);
    }
    pthread_barrier_wait(&written);
    end(arguments[2]);
    _exit(9);
  }
  int status;
  wait(&status);
  const int free = try_lock();
  printf("exit %d signal %d, free %d\n", WEXITSTATUS(status), WTERMSIG(status), free || count > 3);
  return 0;
}
