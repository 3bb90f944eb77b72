// One way for a threaded program to end, chosen by name: the status and the output must be those of ordinary threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char* way;
static pthread_t main_thread;
static volatile int is_made;  // while main makes threads it lets no signals in
static void said_at_exit(void) { printf("exit handler ran\n"); }

__attribute__((noinline)) static void overflow(int depth) {
  volatile char big[4096];
  big[0] = (char)depth;
  if (depth < 100000) overflow(depth + 1);
  big[1] = big[0];
}

static void* act(void* is_idle) {
  if (is_idle && strstr(way, "exit-in-thread")) pause();  // exit in two threads at once is undefined
  if (!strcmp(way, "crash")) *(volatile int*)8 = 1;
  if (!strcmp(way, "abort")) abort();
  if (!strcmp(way, "exit-in-thread")) exit(3);
  if (!strcmp(way, "_exit-in-thread")) _exit(4);
  if (!strcmp(way, "quick-exit-in-thread")) quick_exit(5);
  if (!strcmp(way, "raise")) raise(SIGTERM);
  if (strstr(way, "kill-self") && !is_idle) {
    sigset_t all;
    while (!is_made) usleep(100);
    if (strstr(way, "blocked")) sigfillset(&all), pthread_sigmask(SIG_BLOCK, &all, NULL);
    if (strstr(way, "thread")) pthread_kill(main_thread, SIGTERM);
    else if (strstr(way, "queue")) pthread_sigqueue(main_thread, SIGTERM, (union sigval){0});
    else kill(getpid(), strstr(way, "gently") ? SIGTERM : SIGKILL);
    write(1, "came back\n", 10);
  }
  if (!strcmp(way, "overflow")) overflow(0);
  if (!strcmp(way, "system-call-in-thread")) syscall(SYS_exit, 8);
  if (!strcmp(way, "pthread-exit-in-main") || !strcmp(way, "system-call-in-main")) {
    usleep(50000);
    printf("thread outlived main\n");
  }
  if (!strcmp(way, "main-returns") || !strcmp(way, "main-crashes") || !strcmp(way, "main-exits")) pause();
  return NULL;
}

int main(int count, char** arguments) {
  (void)count;
  way = arguments[1];
  main_thread = pthread_self();
  atexit(said_at_exit);
  printf("start of %s\n", way);
  fflush(stdout);
  pthread_t thread, idle;
  pthread_create(&idle, NULL, act, &idle);
  pthread_create(&thread, NULL, act, NULL);
  is_made = 1;
  if (!strcmp(way, "main-returns")) return 6;
  if (!strcmp(way, "main-exits")) exit(7);
  if (!strcmp(way, "main-crashes")) raise(SIGSEGV);
  if (!strcmp(way, "pthread-exit-in-main")) pthread_exit(NULL);
  if (!strcmp(way, "system-call-in-main")) syscall(SYS_exit, 0);
  if (!strcmp(way, "detach")) {
    pthread_detach(thread);
    pthread_detach(idle);
    usleep(20000);
    return 0;
  }
  pthread_join(thread, NULL);
  pthread_join(idle, NULL);
  return 0;
}
