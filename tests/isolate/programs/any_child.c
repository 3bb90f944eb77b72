// Whoever waits for any child has those of all threads: by wait, by waitid, of a process group, with other waits at the same time.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"

enum { kThreads = 4, kEach = 25, kBeyond = 90 };
static pthread_barrier_t turn;
static int go[2];
static void meet(void) { pthread_barrier_wait(&turn); }

static int ends_with(pid_t got, pid_t want, int status, int code) { return got == want && WIFEXITED(status) && WEXITSTATUS(status) == code; }
static pid_t start(int code, int waits) {
  fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  char byte;
  if (waits) read(go[0], &byte, 1);
  _exit(code);
}
static void let_go(int count) {
  while (count-- > 0) write(go[1], "x", 1);
}

static pid_t theirs[4];
static void* starts(void* unused) {
  for (int i = 0; i < 3; ++i) theirs[i] = start(10 + i, 1);
  char* words[] = {"sh", "-c", "read x; exit 13", NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, go[0], 0);
  setpgid(theirs[2], theirs[2]);
  meet();
  meet();
  posix_spawnp(&theirs[3], "sh", &actions, NULL, words, (char*[]){NULL});
  write(go[1], "\n", 1);
  meet();
  meet();
  return unused;
}
static void* lets_go_soon(void* unused) {
  usleep(20000);
  let_go(1);
  return unused;
}
static void of_one_thread(void) {
  pthread_t thread, soon;
  int status = 0;
  siginfo_t info;
  pthread_create(&thread, NULL, starts, NULL);
  meet();
  printf("all live: %d %d\n", waitpid(-1, &status, WNOHANG), waitpid(-theirs[2], &status, WNOHANG));
  memset(&info, 7, sizeof info);
  printf("all live: %d", waitid(P_ALL, 0, &info, WEXITED | WNOHANG));
  printf(" %d\n", info.si_pid);
  pthread_create(&soon, NULL, lets_go_soon, NULL);
  const pid_t first = wait(&status);
  printf("any: %d %d\n", first == theirs[0] || first == theirs[1] || first == theirs[2], WEXITSTATUS(status) / 10);
  pthread_join(soon, NULL);
  let_go(2);
  printf("looked at: %d", waitid(P_ALL, 0, &info, WEXITED | WNOWAIT));
  printf(" %d\n", info.si_code == CLD_EXITED);
  const pid_t group = waitpid(-theirs[2], &status, 0);
  printf("of a group: %d\n", first == theirs[2] ? group == -1 && errno == ECHILD : ends_with(group, theirs[2], status, 12));
  while (waitpid(-1, &status, WNOHANG) >= 0) usleep(1000);
  printf("none: %d", wait(&status));
  printf(" %d\n", errno == ECHILD);
  meet();
  meet();
  const pid_t last = wait(&status);
  printf("spawned: %d\n", ends_with(last, theirs[3], status, 13));
  meet();
  pthread_join(thread, NULL);
}

/* Each waits for as many as it starts, and has whatever ends. */
static int had[kThreads * kEach + 1];
static void* starts_and_waits(void* own) {
  const int from = (int)(long)own * kEach;
  int status;
  for (int i = 0; i < kEach; ++i) {
    start(from + i, 0);
    if (i % 3) continue;
    if (wait(&status) > 0) __atomic_fetch_add(&had[WEXITSTATUS(status)], 1, __ATOMIC_RELAXED);
  }
  meet();
  while (wait(&status) > 0) __atomic_fetch_add(&had[WEXITSTATUS(status)], 1, __ATOMIC_RELAXED);
  printf("%d", errno == ECHILD);
  meet();
  return NULL;
}
static void of_many_threads(void) {
  pthread_t threads[kThreads];
  int once = 0;
  pthread_barrier_init(&turn, NULL, kThreads);
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, starts_and_waits, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads * kEach; ++i) once += had[i] == 1;
  printf("\nonce: %d\n", once);
}

/* More than are looked at together; the last one ends first. */
static void* starts_many(void* last) {
  int own[2];
  pipe(own);
  for (int i = 0; i < kBeyond; ++i) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      char byte;
      read(i + 1 < kBeyond ? go[0] : own[0], &byte, 1);
      _exit(i);
    }
  }
  meet();
  write(own[1], "x", 1);
  meet();
  return last;
}
static void on_usr1(int n) {}
static volatile int caught;
static pthread_t main_thread;
static void* interrupts(void* unused) {
  while (!caught) usleep(10000), pthread_kill(main_thread, SIGUSR1);
  return unused;
}
static void* waits(void* number) { return (void*)(long)(number ? waitpid((pid_t)(long)number, NULL, 0) : wait(NULL)); }
static void of_more_than_there_is_room_for(void) {
  pthread_t thread, other;
  int status = 0;
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&thread, NULL, starts_many, NULL);
  meet();
  printf("the last one: %d", wait(&status) > 0);
  printf(" %d\n", WEXITSTATUS(status));
  const struct sigaction action = {.sa_handler = on_usr1};
  sigaction(SIGUSR1, &action, NULL);
  pthread_create(&other, NULL, interrupts, NULL);
  errno = 0;
  printf("interrupted: %d", wait(&status));
  printf(" %d\n", errno == EINTR);
  caught = 1;
  pthread_join(other, NULL);
  const pid_t own = start(99, 1);
  const int before = descriptors();
  for (int i = 0; i < 20; ++i) {
    void* end;
    pthread_create(&other, NULL, waits, i % 2 ? (void*)(long)own : NULL);
    usleep(5000);
    pthread_cancel(other);
    pthread_join(other, &end);
    if (end != PTHREAD_CANCELED) printf("not cancelled\n");
  }
  printf("descriptors: %d\n", descriptors() - before);
  let_go(kBeyond);
  int count = 0;
  while (wait(&status) > 0) ++count;
  printf("the others: %d\n", count);
  meet();
  pthread_join(thread, NULL);
}

int main(void) {
  main_thread = pthread_self();
  pipe(go);
  pthread_barrier_init(&turn, NULL, 2);
  of_one_thread();
  of_many_threads();
  of_more_than_there_is_room_for();
  return 0;
}
