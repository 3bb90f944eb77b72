// Timers and the alarm clock are the program's: one thread makes them, another sets and deletes them, and they outlive both.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int fired, value, code, called, in_main;
static pthread_t main_thread;
static sem_t told;
static timer_t timer, calling, own;

static void on_timer(int n, siginfo_t* info, void* context) {
  value = info->si_value.sival_int;
  code = info->si_code;
  fired++;
}
static void on_alarm(int n) { in_main = pthread_equal(pthread_self(), main_thread), fired++; }
static void call(union sigval given) {
  value = given.sival_int;
  called++;
  sem_post(&told);
}
static void on_own(int n) { fired += 100; }

static int make(timer_t* out, int how, int given) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = how;
  event.sigev_signo = SIGRTMIN;
  event.sigev_value.sival_int = given;
  event.sigev_notify_function = call;
  return timer_create(CLOCK_MONOTONIC, &event, out);
}
static int set(timer_t t, long us, long again_us) {
  const struct itimerspec when = {{0, again_us * 1000}, {us / 1000000, us % 1000000 * 1000}};
  return timer_settime(t, 0, &when, NULL);
}
static long left(timer_t t) {
  struct itimerspec when;
  return timer_gettime(t, &when) ? -errno : when.it_value.tv_sec;
}
static void await(int count) {
  while (fired < count) usleep(1000);
}

static void* makes(void* unused) {
  printf("made: %d %d\n", make(&timer, SIGEV_SIGNAL, 7), make(&calling, SIGEV_THREAD, 8));
  printf("set: %d\n", set(timer, 20000, 0));
  printf("left: %d\n", left(timer) == 0);
  alarm(3600);
  return unused;
}
static void* sets(void* unused) {
  printf("set by another: %d", set(timer, 3600000000, 0));
  printf(" %d", left(timer) > 3000);
  printf(" %d\n", set(timer, 1000, 0));
  return unused;
}
static void* deletes(void* unused) {
  printf("deleted: %d", timer_delete(timer));
  printf(" %d", timer_delete(timer));
  printf(" %d\n", errno);
  return unused;
}
static void* has_its_own(void* unused) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGRTMIN + 1;
  event._sigev_un._tid = gettid();
  const int before = fired;
  printf("own: %d", timer_create(CLOCK_MONOTONIC, &event, &own));
  set(own, 1000, 0);
  await(before + 100);
  printf(" %d\n", timer_delete(own));
  event.sigev_notify = SIGEV_NONE;
  timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &own);
  printf("counts: %d", set(own, 3600000000, 0));
  printf(" %d", left(own) > 3000);
  printf(" %d\n", timer_delete(own));
  return unused;
}
static void in_thread(void* (*what)(void*)) {
  pthread_t thread;
  pthread_create(&thread, NULL, what, NULL);
  pthread_join(thread, NULL);
}
static void* waits(void* set) {
  int n = 0;
  timer_t mine;
  make(&mine, SIGEV_SIGNAL, 9);
  const struct itimerspec soon = {{0, 1000000}, {0, 1000000}};
  timer_settime(mine, 0, &soon, NULL);
  for (int i = 0; i < 20; i++) {
    siginfo_t info;
    n += sigwaitinfo(set, &info) == SIGRTMIN && info.si_value.sival_int == 9;
  }
  printf("waited for: %d\n", n);
  timer_delete(mine);
  return NULL;
}
static void* races(void* unused) {
  for (int i = 0; i < 200; i++) {
    timer_t t;
    if (make(&t, i % 2 ? SIGEV_THREAD : SIGEV_NONE, 1) || set(t, 1, 0) || timer_delete(t)) printf("failed %d\n", errno);
  }
  return unused;
}

int main(void) {
  main_thread = pthread_self();
  sem_init(&told, 0, 0);
  struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGRTMIN, &action, NULL);
  signal(SIGRTMIN + 1, on_own);
  signal(SIGALRM, on_alarm);
  setbuf(stdout, NULL);
  in_thread(makes);
  await(1);
  printf("fired: %d, %d\n", value, code == SI_TIMER);
  set(calling, 1000, 0);
  sem_wait(&told);
  printf("called: %d\n", value);
  set(calling, 1000, 1000);
  for (int i = 0; i < 20; i++) sem_wait(&told);
  in_thread(sets);
  await(2);
  in_thread(deletes);
  printf("deleted: %d\n", timer_delete(calling));
  while (sem_trywait(&told) == 0) {}
  printf("alarm: %d", alarm(0) > 3000);
  struct itimerval soon = {{0, 0}, {0, 1000}}, none;
  setitimer(ITIMER_REAL, &soon, NULL);
  await(3);
  printf(" %d %d", in_main, getitimer(ITIMER_REAL, &none));
  printf(" %ld\n", (long)none.it_value.tv_sec);
  in_thread(has_its_own);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    make(&timer, SIGEV_THREAD, 5);
    set(timer, 1000, 0);
    while (value != 5) sem_wait(&told);
    printf("child: %d\n", called > 0);
    fired = 0;
    make(&timer, SIGEV_SIGNAL, 6);
    set(timer, 1000, 0);
    await(1);
    in_thread(deletes);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  pthread_t racers[3];
  for (int i = 0; i < 3; i++) pthread_create(&racers[i], NULL, races, NULL);
  for (int i = 0; i < 3; i++) pthread_join(racers[i], NULL);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);
  pthread_t waiter;
  pthread_create(&waiter, NULL, waits, &blocked);
  pthread_join(waiter, NULL);
  return 0;
}
