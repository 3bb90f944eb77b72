// Who registers for barriers registers the program: threads that were there before and before the first, too.
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kGetRegistrations = 1 << 9 };  // since Linux 6.3
static sem_t go;
static long barrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }
static void* looks(void* unused) {
  sem_wait(&go);
  printf("barrier: %ld\n", barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
  return (void*)barrier(kGetRegistrations);
}

int main(int count, char** arguments) {
  pthread_t thread;
  void* of_thread;
  sem_init(&go, 0, 0);
  if (count > 1) barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  pthread_create(&thread, NULL, looks, NULL);
  if (count == 1) barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  const long of_main = barrier(kGetRegistrations);
  sem_post(&go);
  pthread_join(thread, &of_thread);
  printf("the same: %d\n", of_main == (long)of_thread && of_main != 0);
}
