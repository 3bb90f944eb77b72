// A thread asks for a signal when the program's parent dies: it comes, and the program's own death still ends its threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int news[2], gate[2];

static void* ask(void* unused) {
  int now = 0;
  const int set = prctl(PR_SET_PDEATHSIG, SIGTERM), got = prctl(PR_GET_PDEATHSIG, &now);
  dprintf(news[1], "set %d, got %d: %d\n", set, got, now == SIGTERM);
  close(gate[1]);
  for (;;) pause();
  return unused;
}
static void run_program(void) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, ask, NULL);
  int n = 0;
  sigwait(&term, &n);
  dprintf(news[1], "signal %d\n", n);
  kill(getpid(), SIGKILL);
}

int main(void) {
  pipe(news);
  pipe(gate);
  if (fork() == 0) {
    if (fork() == 0) run_program();
    close(gate[1]);
    char nothing;
    read(gate[0], &nothing, 1);  // until the thread has asked
    _exit(0);
  }
  close(news[1]);
  close(gate[1]);
  wait(NULL);
  char text[200];
  for (ssize_t got; (got = read(news[0], text, sizeof text)) > 0;) write(1, text, got);  // until all of the program is gone
  return 0;
}
