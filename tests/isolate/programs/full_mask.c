// A handler from before the first thread, which blocks all signals, touches what another thread has mapped since.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static char* volatile mapped;
static void on_usr1(int n) { printf("in a handler: %c\n", mapped[0]); }
static void* maps(void* unused) {
  const int fd = memfd_create("file", 0);
  write(fd, "x", 1);
  mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  return unused;
}

int main(void) {
  struct sigaction action = {.sa_handler = on_usr1};
  sigfillset(&action.sa_mask);
  sigaction(SIGUSR1, &action, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, maps, NULL);
  pthread_join(thread, NULL);
  raise(SIGUSR1);
  return 0;
}
