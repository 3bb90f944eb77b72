// Children of one thread that another one waits for.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kChildren = 6 };
static pid_t children[kChildren];
static int go[2];
static pthread_barrier_t turn;

static void on_alarm(int n) {}
static void start(int with) {
  for (int i = 0; i < kChildren; ++i) {
    fflush(stdout);
    children[i] = fork();
    if (children[i] != 0) continue;
    char byte;
    read(go[0], &byte, 1);
    _exit(with + i);
  }
}
static void let_go(int count) { write(go[1], "123456", count); }
static void* let_go_soon(void* unused) {
  usleep(20000);
  let_go(kChildren);
  return unused;
}
static void wait_for_all(const char* who) {
  int status = 0;
  siginfo_t info;
  struct rusage usage;
  printf("%s: lives %d\n", who, waitpid(children[0], &status, WNOHANG));
  const struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGUSR1, &action, NULL);
  pthread_t soon;
  pthread_create(&soon, NULL, let_go_soon, NULL);
  printf("first: %d", waitpid(children[0], &status, 0) == children[0]);
  printf(" %d\n", WEXITSTATUS(status));
  memset(&info, 0, sizeof info);
  printf("looked at: %d %d", waitid(P_PID, children[1], &info, WEXITED | WNOWAIT), info.si_pid == children[1]);
  printf(" %d\n", info.si_status);
  printf("second: %d", wait4(children[1], &status, 0, &usage) == children[1]);
  printf(" %d %d\n", WEXITSTATUS(status), usage.ru_maxrss > 0);
  const int pidfd = syscall(SYS_pidfd_open, children[2], 0);
  printf("third: %d", waitid(P_PIDFD, pidfd, &info, WEXITED));
  printf(" %d\n", info.si_status);
  for (int i = 3, r; i < kChildren; ++i) {
    while ((r = waitpid(children[i], &status, WNOHANG)) == 0) usleep(1000);
    printf("polled: %d %d\n", r == children[i], WEXITSTATUS(status));
  }
  errno = 0;
  printf("again: %d", waitpid(children[0], &status, 0));
  printf(" %d\n", errno == ECHILD);
  errno = 0;
  printf("a stranger: %d", waitpid(getppid(), &status, 0));
  printf(" %d\n", errno == ECHILD);
  pthread_join(soon, NULL);
}
static void* starts(void* unused) {
  start(20);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  return unused;
}
static void* waits(void* unused) { return wait_for_all("thread"), unused; }
static pthread_t main_thread;
static volatile int interrupted;
static void* interrupts(void* unused) {
  while (!interrupted) usleep(20000), pthread_kill(main_thread, SIGUSR1);
  return unused;
}
static void* starts_one(void* unused) {
  fflush(stdout);
  children[0] = fork();
  if (children[0] == 0) pause(), _exit(0);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  return unused;
}

int main(void) {
  pthread_t thread, other;
  main_thread = pthread_self();
  pipe(go);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&thread, NULL, starts, NULL);
  pthread_barrier_wait(&turn);
  wait_for_all("main");
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  start(40);
  pthread_create(&thread, NULL, waits, NULL);
  pthread_join(thread, NULL);
  pthread_create(&thread, NULL, starts_one, NULL);
  pthread_barrier_wait(&turn);
  pthread_create(&other, NULL, interrupts, NULL);
  const int result = waitpid(children[0], NULL, 0), error = errno;
  interrupted = 1;
  pthread_join(other, NULL);
  printf("interrupted: %d %d\n", result, error == EINTR);
  kill(children[0], SIGTERM);
  int status = 0;
  printf("by a signal: %d", waitpid(children[0], &status, 0) == children[0]);
  printf(" %d\n", WTERMSIG(status));
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  return 0;
}
