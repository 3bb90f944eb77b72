// A thread takes what the kernel and others send to the program: it is told who, why and what as if that had come to it at once.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char* how;
static sigset_t set;
static int ends[2], child;
static volatile int told;

static void tell(int signal, int code, int error, int file, int process, int status, int value) {
  if (signal == SIGIO) printf("file: code %d, error %d, the file %d\n", code, error, file == ends[0]);
  if (signal == SIGCHLD) printf("child: code %d, error %d, the child %d, status %d\n", code, error, process == child, status);
  if (signal == SIGRTMIN) printf("timer: code %d, error %d, value %d\n", code, error, value);
  if (signal == SIGUSR1) printf("kill: code %d, error %d\n", code, error);
  if (signal == SIGALRM) printf("alarm: code %d, error %d\n", code, error);
  ++told;
}
static void handle(int signal, siginfo_t* info, void* unused) {
  tell(signal, info->si_code, info->si_errno, info->si_fd, info->si_pid, info->si_status, info->si_value.sival_int);
}
static void* take_all(void* unused) {
  struct signalfd_siginfo read_info;
  siginfo_t info;
  const int file = signalfd(-1, &set, 0);
  if (strcmp(how, "handles") == 0) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  for (;;)
    if (strcmp(how, "waits") == 0) {
      if (sigwaitinfo(&set, &info) > 0) handle(info.si_signo, &info, NULL);
    } else if (strcmp(how, "reads") == 0) {
      if (read(file, &read_info, sizeof read_info) > 0)
        tell((int)read_info.ssi_signo, read_info.ssi_code, read_info.ssi_errno, read_info.ssi_fd, (int)read_info.ssi_pid,
             read_info.ssi_status, read_info.ssi_int);
    } else {
      pause();
    }
  return unused;
}
static void expect(int number) {
  while (told < number) usleep(1000);
}

int main(int count, char** arguments) {
  const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  const int all[] = {SIGIO, SIGCHLD, SIGRTMIN, SIGUSR1, SIGALRM}, program = getpid();
  how = arguments[1];
  sigemptyset(&set);
  for (int i = 0; i < 5; ++i) sigaddset(&set, all[i]), sigaction(all[i], &action, NULL);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  pthread_t thread;
  pthread_create(&thread, NULL, take_all, NULL);
  usleep(1200000);  // with isolated threads it takes a second to find out who handles them
  int expected = 0;
  fcntl(ends[0], F_SETOWN, program), fcntl(ends[0], F_SETSIG, SIGIO), fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
  if (write(ends[1], "x", 1) == 1) expect(++expected);
  if (strcmp(how, "handles") != 0) {  // SIGCHLD is main's, where it is handled
    if ((child = fork()) == 0) {
      usleep(20000);
      _exit(7);
    }
    expect(++expected);
  }
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 42};
  const struct itimerspec soon = {{0, 0}, {0, 10000000}};
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  timer_settime(timer, 0, &soon, NULL);
  expect(++expected);
  kill(program, SIGUSR1);
  expect(++expected);
  ualarm(10000, 0);
  expect(++expected);
  fflush(stdout);
  _exit(0);
}
