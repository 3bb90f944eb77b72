// setuid and its relatives in one thread: every thread has the new ids. As root it drops to user 12345, else it keeps
// its own.
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_barrier_t turn;
static uid_t wanted;

static void* look(void* unused) {
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("thread: uid %d, euid %d, gid %d\n", getuid() == wanted, geteuid() == wanted,
         getgid() == wanted || getuid() != 12345);
  return unused;
}

static int give_up(void) {
  return setgroups(0, NULL) + setresgid(12345, 12345, 12345) + setresuid(12345, 12345, 12345);
}

int main(int count, char** arguments) {
  wanted = getuid() == 0 ? 12345 : getuid();
  pthread_t thread;
  pthread_barrier_init(&turn, NULL, 2);
  if (count > 1 && getuid() == 0) printf("before: %d\n", give_up());
  pthread_create(&thread, NULL, look, NULL);
  pthread_barrier_wait(&turn);
  if (getuid() == 0) printf("after: %d\n", give_up());
  printf("back to root refused: %d\n", setuid(0) == -1);
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  return 0;
}
