// A thread's number in kill and sigqueue means the program: who lets the signal in handles it.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static sem_t ready;
static pid_t number;
static volatile sig_atomic_t handled;

static void on_signal(int signal) { handled += gettid() == getpid(); }

static void* blocks(void* unused) {
  sigset_t set;
  sigfillset(&set), pthread_sigmask(SIG_BLOCK, &set, NULL);
  number = syscall(SYS_gettid);
  sem_post(&ready);
  for (;;) pause();
}

int main(void) {
  pthread_t thread;
  signal(SIGUSR1, on_signal);
  sem_init(&ready, 0, 0);
  pthread_create(&thread, NULL, blocks, NULL);
  sem_wait(&ready);
  printf("%d\n", kill(number, SIGUSR1));
  printf("%ld\n", syscall(SYS_kill, number, SIGUSR1));
  siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
  printf("%d\n", sigqueue(number, SIGUSR1, (union sigval){1}));
  printf("%ld\n", syscall(SYS_rt_sigqueueinfo, number, SIGUSR1, &info));
  printf("%d, handled by main %d\n", kill(number, 0), handled);
}
