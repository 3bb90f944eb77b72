// Processes of a threaded program: fork with and without exec, from main and from a thread, popen, system, threads in
// the child, memory that parent and child no longer share, and exec from a thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int global = 1;
static int prepared, in_parent, in_child;
static void prepare(void) { ++prepared; }
static void parent_after(void) { ++in_parent; }
static void child_after(void) { ++in_child; }

static void* add(void* p) {
  __atomic_fetch_add((int*)p, 1, __ATOMIC_SEQ_CST);
  return malloc(100);
}

static int child_work(int* heap, int* stack) {
  global = *heap = *stack = 50;
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, add, i % 2 ? heap : stack);
  for (int i = 0; i < 3; ++i) {
    void* block;
    pthread_join(threads[i], &block);
    free(block);
  }
  printf("child: %d %d %d, own pid %d, handlers %d\n", global, *heap, *stack, getpid() != getppid(), in_child);
  fflush(stdout);
  return 7;
}

static void* forks(void* unused) {
  int stack = 3, status = 0;
  int* heap = malloc(sizeof *heap);
  *heap = 2;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) exit(child_work(heap, &stack));
  waitpid(child, &status, 0);
  printf("parent: %d %d %d, status %d\n", global, *heap, stack, WEXITSTATUS(status));
  free(heap);
  return unused;
}

static void* forks_by_the_system_call(void* unused) {
  for (int i = 0; i < 2; ++i) {
    int status = 0;
    global = 1;
    fflush(stdout);
    const pid_t child = i ? syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L) : syscall(SYS_fork);
    if (child == 0) {
      global = 60;
      _exit(global);
    }
    waitpid(child, &status, 0);
    printf("by the system call: %d, status %d\n", *(volatile int*)&global, WEXITSTATUS(status));
  }
  return unused;
}

static void* ticks(void* unused) {
  for (int i = 0; i < 2000; ++i) free(malloc(i));
  return unused;
}

int main(void) {
  pthread_t thread, other;
  pthread_atfork(prepare, parent_after, child_after);
  pthread_create(&other, NULL, ticks, NULL);
  forks(NULL);
  pthread_create(&thread, NULL, forks, NULL);
  pthread_join(thread, NULL);
  pthread_join(other, NULL);
  pthread_create(&thread, NULL, forks_by_the_system_call, NULL);
  pthread_join(thread, NULL);
  printf("atfork %d %d\n", prepared, in_parent);
  char line[64] = "";
  FILE* f = popen("echo from popen", "r");
  fgets(line, sizeof line, f);
  printf("%s", line);
  printf("pclose %d\n", pclose(f));
  fflush(stdout);
  printf("system %d\n", WEXITSTATUS(system("exit 9")));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execlp("sh", "sh", "-c", "echo from exec; kill -TERM $$", NULL);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child ended by signal %d\n", WTERMSIG(status));
  fflush(stdout);
  return 0;
}
