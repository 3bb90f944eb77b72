// A child whose thread has ended is the program's still, whether it lives or has ended: any thread has its status, and main is its parent.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subreaper.h"

extern char** environ;
static int ends[2];
static volatile sig_atomic_t told;
static void on_child(int n) { ++told; }

static void* forks(void* out) {
  const pid_t program = getpid();
  if ((*(pid_t*)out = fork()) != 0) return NULL;
  char c;
  close(ends[1]);
  read(ends[0], &c, 1);
  _exit(getppid() == program ? 7 : 8);
}
static void* forks_one_that_ends(void* out) {
  if ((*(pid_t*)out = fork()) == 0) _exit(9);
  siginfo_t info;
  waitid(P_PID, *(pid_t*)out, &info, WEXITED | WNOWAIT);
  return NULL;
}
static void* spawns(void* out) {
  char* const arguments[] = {"sh", "-c", "read line; exit 11", NULL};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[0], 0);
  posix_spawn_file_actions_addclose(&files, ends[1]);
  posix_spawn(out, "/bin/sh", &files, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  return NULL;
}
static void* waits(void* pid) {
  int status = 0;
  const pid_t wanted = *(pid_t*)pid, got = waitpid(wanted, &status, 0);
  printf("%d, status %d\n", got == wanted, WEXITSTATUS(status));
  return NULL;
}

/// The children of a child that ends are nobody's: main, which may take in others for a moment, has none of them later.
static void leave_daemon(void) {
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) usleep(200000);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

int main(void) {
  signal(SIGCHLD, on_child);
  void* (*const ways[])(void*) = {forks, forks_one_that_ends, spawns};
  for (int i = 0; i < 9; ++i) {
    pthread_t thread;
    pid_t pid = 0;
    int status = 0;
    pipe(ends);
    pthread_create(&thread, NULL, ways[i % 3], &pid);
    pthread_join(thread, NULL);
    if (i % 3 != 1) printf("lives: %d\n", waitpid(pid, &status, WNOHANG) == 0);
    close(ends[0]), close(ends[1]);
    if (i / 3 == 0) waits(&pid);
    if (i / 3 == 1) pthread_create(&thread, NULL, waits, &pid), pthread_join(thread, NULL);
    if (i / 3 == 2) {
      const pid_t got = wait(&status);
      printf("%d, status %d\n", got == pid, WEXITSTATUS(status));
    }
  }
  wait_until_it_takes_in_none();
  leave_daemon();
  printf("none left: %d, told: %d\n", wait(NULL) < 0 && errno == ECHILD, told > 0);
}
