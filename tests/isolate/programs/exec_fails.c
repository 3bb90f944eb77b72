/* Execs that fail, of a threaded program: each tells why, and the program goes on. The last is of a script without "#!", which libc gives
 * to the shell when the kernel does not take it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char* const no_arguments[] = {"x", NULL};
static char* const no_environment[] = {NULL};

static void make(const char* name, const char* text) {
  const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700);
  write(fd, text, strlen(text));
  close(fd);
}
static void tell(const char* what, long result) { printf("%s: %ld %s\n", what, result, strerror(errno)); }
static void by_path(const char* path) { tell(path, execv(path, no_arguments)); }

static void by_descriptor(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  tell(path, fexecve(fd, no_arguments, no_environment));
  close(fd);
}

static void* fail(void* nothing) {
  const char* const paths[] = {".", "fifo", "nowhere", "text/x", "text", "empty", "line", "no-interpreter", "its-interpreter", "text-as-interpreter",
                               "folder-as-interpreter", "itself", "nobody-named", "not-executable", "short-elf", "link"};
  for (unsigned i = 0; i < sizeof paths / sizeof *paths; ++i) by_path(paths[i]);
  by_descriptor(".");
  by_descriptor("text");
  by_descriptor("script");  // its interpreter could not open it: "close on exec"
  tell("no descriptor", fexecve(-1, no_arguments, no_environment));
  tell("in a folder", execveat(AT_FDCWD, "text", no_arguments, no_environment, 0));
  tell("no link wanted", execveat(AT_FDCWD, "link", no_arguments, no_environment, AT_SYMLINK_NOFOLLOW));
  tell("system call", syscall(SYS_execve, "text", no_arguments, no_environment));
  fflush(stdout);
  execlp("./text", "text", NULL);
  return NULL;
}
static void* wait_for_ever(void* nothing) {
  for (;;) pause();
  return nothing;
}

int main(int count, char** arguments) {
  if (chdir(arguments[1]) != 0) return 1;
  make("text", "exit 33\n");
  make("empty", "");
  make("line", "\n");
  make("no-interpreter", "#!/nowhere/sh\n");
  make("its-interpreter", "#! ./no-interpreter -x\n");
  make("text-as-interpreter", "#!./text\n");
  make("folder-as-interpreter", "#!/\n");
  make("itself", "#!./itself\n");
  make("nobody-named", "#! \n");
  make("script", "#!/bin/sh\n");
  make("not-executable", "#!/bin/sh\n");
  make("short-elf", "\177ELF\2\1\1");
  chmod("not-executable", 0600);
  mkfifo("fifo", 0700);
  symlink("text", "link");
  pthread_t thread;
  pthread_create(&thread, NULL, wait_for_ever, NULL);
  if (count < 3) fail(NULL);
  pthread_create(&thread, NULL, fail, NULL);
  pthread_join(thread, NULL);
  return 2;
}
