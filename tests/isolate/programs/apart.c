// Whether threads live in address spaces of their own: the kernel is asked past libc which process the caller is.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static int counter;

static pid_t process_of_caller(void) {
  pid_t pid;
  __asm__ volatile("syscall" : "=a"(pid) : "a"(SYS_getpid) : "rcx", "r11", "memory");
  return pid;
}

static void* work(void* main_process) {
  __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
  return (void*)(long)(process_of_caller() != *(pid_t*)main_process);
}

int main(void) {
  pid_t process = process_of_caller();
  pthread_t threads[4];
  void* own = NULL;
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, &process);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], &own);
  printf("own process: %ld\nshared counter: %d\n", (long)own, counter);
  return 0;
}
