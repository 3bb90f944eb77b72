// Requests of POSIX asynchronous input and output, for which libc makes threads; it waits for them by futexes of its own.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char* path;
static void* work(void* unused) {
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  char text[] = "some words", back[16] = "";
  struct aiocb out = {.aio_fildes = fd, .aio_buf = text, .aio_nbytes = sizeof text}, in = out, *list[] = {&in};
  in.aio_buf = back;
  in.aio_lio_opcode = LIO_READ;
  aio_write(&out);
  const struct aiocb* const waited_for[] = {&out};
  while (aio_error(&out) == EINPROGRESS) aio_suspend(waited_for, 1, NULL);
  printf("written: %d\n", (int)aio_return(&out));
  lio_listio(LIO_WAIT, list, 1, NULL);
  printf("read: %d %s\n", (int)aio_return(&in), back);
  close(fd);
  return unused;
}

int main(int count, char** arguments) {
  pthread_t thread;
  path = arguments[1];
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  work(NULL);
  return 0;
}
