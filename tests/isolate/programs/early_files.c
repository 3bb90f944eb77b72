// Private mappings of files from before the first thread, small and large ones, whose rights a thread changes; and code that others run
// while it is opened to writing.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPage = 4096, kSmall = 16 * kPage, kLarge = 4 << 20, kRounds = 64 };
static char *small, *large, *written, *code;
static _Atomic int runs, ended;
static sigjmp_buf before;

static void leave(int signal) { siglongjmp(before, signal); }

static void look(const char* what, const char* at) {
  if (sigsetjmp(before, 1) == 0) printf("%s: %c\n", what, *(const volatile char*)at);
  else printf("%s: fault\n", what);
}

static void* open_all(void* unused) {
  for (char* at = small; at; at = at == small ? large : NULL) {
    const size_t bytes = at == small ? kSmall : kLarge;
    mprotect(at, bytes, PROT_READ | PROT_WRITE);
    at[0] = 's', at[bytes - 1] = 't';
    mprotect(at + kPage, kPage, PROT_NONE);
  }
  written[kPage] = 'v';
  mprotect(written, kLarge, PROT_READ);
  mprotect(written, kLarge, PROT_READ | PROT_WRITE);
  written[kLarge - 1] = 'w';
  return unused;
}

static void* run(void* unused) {
  for (; !ended; ++runs) ((void (*)(void))(code + runs % kRounds * kPage))();
  return unused;
}

static void* map_code(void* file) {
  code = mmap(NULL, kRounds * kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, *(int*)file, 0);
  return NULL;
}

static void run_while_opened(void) {
  pthread_t thread;
  ended = runs = 0;
  pthread_create(&thread, NULL, run, NULL);
  for (int round = 0; round < kRounds; ++round) {
    const int had = runs;
    while (runs == had) usleep(10);
    mprotect(code + round * kPage, kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
    code[round * kPage + 1] = 'x';
    mprotect(code + round * kPage, kPage, PROT_READ | PROT_EXEC);
  }
  ended = 1;
  pthread_join(thread, NULL);
  puts("ran");
}

int main(void) {
  static char part[1 << 16];
  memset(part, '\xc3', sizeof part);  // ret
  int file = memfd_create("early", 0);
  for (size_t at = 0; at < kLarge; at += sizeof part) write(file, part, sizeof part);
  small = mmap(NULL, kSmall, PROT_READ, MAP_PRIVATE, file, 0);
  large = mmap(NULL, kLarge, PROT_READ, MAP_PRIVATE, file, 0);
  written = mmap(NULL, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  map_code(&file);
  signal(SIGSEGV, leave);
  pthread_t thread;
  pthread_create(&thread, NULL, open_all, NULL);
  pthread_join(thread, NULL);
  look("small", small), look("its end", small + kSmall - 1), look("nobody", small + kPage);
  look("large", large), look("its end", large + kLarge - 1), look("nobody", large + kPage);
  look("written", written + kPage), look("its end", written + kLarge - 1);
  signal(SIGSEGV, SIG_DFL);
  run_while_opened();
  pthread_create(&thread, NULL, map_code, &file);
  pthread_join(thread, NULL);
  run_while_opened();
}
