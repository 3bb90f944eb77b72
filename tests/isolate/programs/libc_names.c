// libc, too, takes the program's number: in lines of a log, and where it sends the signal of an operation that is through. And a thread
// without privilege may send it.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

static void* logs(void* unused) {
  openlog("me", LOG_PERROR | LOG_PID, LOG_USER);
  syslog(LOG_ERR, "hello");
  return unused;
}

static void* sends(void* unused) {
  int ends[2], one = 1;
  struct ucred mine = {getpid(), getuid(), getgid()};
  char room[CMSG_SPACE(sizeof mine)] = "", byte = 'x';
  struct iovec bytes = {&byte, 1};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_CREDENTIALS, head->cmsg_len = CMSG_LEN(sizeof mine);
  memcpy(CMSG_DATA(head), &mine, sizeof mine);
  socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
  setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one);
  const ssize_t sent = sendmsg(ends[0], &message, 0);
  printf("sent: %zd %s\n", sent, sent < 0 ? strerror(errno) : "");
  mine.pid = 1;
  memcpy(CMSG_DATA(head), &mine, sizeof mine);
  printf("another's: %zd\n", sendmsg(ends[0], &message, 0));
  return unused;
}

int main(void) {
  pthread_t thread;
  int ends[2];
  char line[256] = "", wanted[64];
  const int errors = dup(2);
  pipe(ends), dup2(ends[1], 2);
  pthread_create(&thread, NULL, logs, NULL), pthread_join(thread, NULL);
  dup2(errors, 2);
  read(ends[0], line, sizeof line - 1);
  snprintf(wanted, sizeof wanted, "me[%d]: hello", getpid());
  printf("log: %d\n", strstr(line, wanted) != NULL);
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGUSR1), pthread_sigmask(SIG_BLOCK, &set, NULL);
  struct aiocb read_zeros = {.aio_fildes = open("/dev/zero", O_RDONLY), .aio_buf = line, .aio_nbytes = 16};
  read_zeros.aio_sigevent.sigev_notify = SIGEV_SIGNAL, read_zeros.aio_sigevent.sigev_signo = SIGUSR1;
  aio_read(&read_zeros);
  const struct timespec time = {20, 0};
  printf("signal: %d\n", sigtimedwait(&set, NULL, &time) == SIGUSR1);
  fflush(stdout);
  if (getuid() == 0) setgid(65534), setuid(65534);
  pthread_create(&thread, NULL, sends, NULL), pthread_join(thread, NULL);
}
