// Signals of a threaded program: handlers set by one thread serve all, alternate stacks, masks, a fault handler of the
// program's own, and signals sent to the process and to threads by their numbers.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t turn;
static volatile int handled_by_thread, handled_by_main, interrupted;
static volatile pid_t thread_id;
static pthread_t main_thread;
static sigjmp_buf back;
static void on_usr1(int n) {
  if (pthread_equal(pthread_self(), main_thread)) ++handled_by_main;
  else ++handled_by_thread;
}
static void on_fault(int n, siginfo_t* info, void* context) { siglongjmp(back, info->si_addr == (void*)16 ? 1 : 2); }
// What programs built for glibc before 2.34 call.
__asm__(".symver old_kill, pthread_kill@GLIBC_2.2.5");
int old_kill(pthread_t thread, int n);
static void on_int(int n) { ++interrupted; }

static void* work(void* unused) {
  pthread_barrier_wait(&turn);  // main has set the handlers after this thread began
  raise(SIGUSR1);
  tgkill(getpid(), gettid(), SIGUSR1);
  syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
  printf("handled by thread: %d\n", handled_by_thread);
  printf("not the program's: %d, %d\n", tgkill(getpid(), 1, 0), tgkill(1, gettid(), 0));
  thread_id = gettid();
  int way = sigsetjmp(back, 1);
  if (way == 0) *(volatile int*)16 = 1;
  printf("own fault handler: %d\n", way);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  printf("inherited mask: %d\n", sigismember(&mask, SIGUSR2));
  return unused;
}

int main(void) {
  pthread_t thread;
  sigset_t mask;
  main_thread = pthread_self();
  pthread_barrier_init(&turn, NULL, 2);
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &mask, NULL);
  pthread_create(&thread, NULL, work, NULL);
  struct sigaction action = {.sa_handler = on_usr1};
  sigaction(SIGUSR1, &action, NULL);
  struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &fault, NULL);
  signal(SIGINT, on_int);
  struct sigaction old;
  sigaction(SIGSEGV, NULL, &old);
  printf("own handler reported back: %d\n", old.sa_sigaction == on_fault);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("by its number: %d\n", tgkill(getpid(), thread_id, 0));
  printf("old pthread_kill: %d\n", old_kill(thread, 0));
  kill(getpid(), SIGUSR1);
  printf("handled by main: %d\n", handled_by_main);
  kill(getpid(), SIGINT);
  printf("interrupted: %d\n", interrupted);
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  return 0;
}
