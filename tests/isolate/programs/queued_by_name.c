// pthread_sigqueue tells who sent it, and neither it nor pthread_kill sends what libc keeps for itself.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static sigset_t set;
static pthread_t main_thread;

static void* sends(void* unused) {
  for (int signal = 31; signal <= 34; ++signal) {
    printf("%d: %s", signal, strerror(pthread_kill(main_thread, signal)));
    printf(", %s\n", strerror(pthread_sigqueue(main_thread, signal, (union sigval){1})));
  }
  pthread_sigqueue(main_thread, SIGUSR1, (union sigval){.sival_int = 5});
  return unused;
}

int main(void) {
  pthread_t thread;
  siginfo_t info;
  main_thread = pthread_self();
  sigfillset(&set), pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_create(&thread, NULL, sends, NULL);
  sigemptyset(&set), sigaddset(&set, SIGUSR1);
  while (sigwaitinfo(&set, &info) < 0) {}
  printf("%d, by the program %d\n", info.si_value.sival_int, info.si_pid == getpid());
  pthread_join(thread, NULL);
}
