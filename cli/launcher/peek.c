/* mortise-peek PID LIBRARY BASE: prints the statistics of the mortise allocator LIBRARY in process PID, where its file
 * starts at address BASE; with "profile", its heap profile. What they mean and how LIBRARY walks a heap that is not its own: abi/snapshot.cpp.
 *
 *   the other process                       this one
 *   +-----------+  descriptor: heap at H    +--------------+
 *   | LIBRARY   | ------------------------> | LIBRARY      |  walks H. Nothing is there, so it faults; the handler
 *   | heap at H | <- process_vm_readv ----- | page of H    |  below fetches that page to the same address; it goes on.
 *   +-----------+                           +--------------+
 *
 * The other process is not stopped, signalled or traced. Exit status: 0 printed; 3 no right to read; 4 the heap changed
 * too much while it was read, or lies where this process lies: try again; 5 another file than the one that runs; 6 it keeps no profile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NO_RIGHT = 3, TRY_AGAIN = 4, OTHER_FILE = 5, NO_PROFILE = 6, PAGES_MAX = 1 << 23, SECONDS_MAX = 5 };
enum { KEPT = 8192 };         /* of the pages that were fetched; a walk does not come back to what it saw long ago */
enum { TEXT_MAX = 1 << 28 };  /* a heap of the program's takes 2 KB */

struct descriptor {
  char magic[8];
  uint32_t version, bytes;
  uint64_t heap_bytes, heap, events;
  char allocator[32], library_version[32];
};

static pid_t target;
static uintptr_t page_bytes;

static int fetch(uintptr_t from, void* to, size_t bytes) {
  struct iovec here = {to, bytes}, there = {(void*)from, bytes};
  return process_vm_readv(target, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static void fetch_page(int signal_number, siginfo_t* info, void* context) {
  (void)signal_number, (void)context;
  static unsigned pages;
  static uintptr_t kept[KEPT];
  uintptr_t at = (uintptr_t)info->si_addr & ~(page_bytes - 1);
  if (info->si_code != SEGV_MAPERR || ++pages > PAGES_MAX) _exit(TRY_AGAIN);
  if (pages % KEPT == 0) alarm(SECONDS_MAX); /* it goes on; each page may be a mapping of its own, of which the kernel allows 65 530 */
  uintptr_t* oldest = &kept[pages % KEPT];
  if (*oldest) munmap((void*)*oldest, page_bytes);
  *oldest = at;
  void* page = mmap((void*)at, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (page != (void*)at || !fetch(at, page, page_bytes)) _exit(TRY_AGAIN);
}

static int is_free_here(uintptr_t at, size_t bytes) {
  unsigned char in_core;
  for (uintptr_t page = at & ~(page_bytes - 1); page < at + bytes; page += page_bytes)
    if (mincore((void*)page, page_bytes, &in_core) == 0 || errno != ENOMEM) return 0;
  return 1;
}

int main(int count, char** arguments) {
  if (count != 4 && count != 5) return fprintf(stderr, "usage: mortise-peek PID LIBRARY BASE [profile]\n"), 2;
  target = atoi(arguments[1]);
  page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t base = strtoul(arguments[3], NULL, 16);
  alarm(SECONDS_MAX); /* a heap copied in the middle of a change may make a walk go round for ever */

  void* library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), OTHER_FILE;
  struct descriptor* own = dlsym(library, "mortise_descriptor");
  size_t (*peek)(void*, void*, void*, char*, size_t);
  void* (*heaps_here)(void);
  *(void**)&peek = dlsym(library, "mortise_stats_peek");
  *(void**)&heaps_here = dlsym(library, "mortise_stats_heaps");
  Dl_info where;
  if (!own || !peek || !heaps_here || !dladdr(own, &where)) return fprintf(stderr, "no descriptor in it\n"), OTHER_FILE;

  struct descriptor theirs;
  if (!fetch(base + ((uintptr_t)own - (uintptr_t)where.dli_fbase), &theirs, sizeof theirs))
    return fprintf(stderr, "%s\n", strerror(errno)), errno == EPERM ? NO_RIGHT : OTHER_FILE;
  if (memcmp(theirs.magic, own->magic, sizeof own->magic) || theirs.version != own->version ||
      theirs.heap_bytes != own->heap_bytes || strcmp(theirs.library_version, own->library_version) ||
      theirs.heap - base != own->heap - (uintptr_t)where.dli_fbase)
    return fprintf(stderr, "the process runs another version of it\n"), OTHER_FILE;
  if (!is_free_here(theirs.heap, theirs.heap_bytes)) { /* without address randomisation both lie at the same place */
    int now = personality(0xffffffff);
    if (getenv("MORTISE_PEEK_AGAIN") || now < 0) return TRY_AGAIN;
    setenv("MORTISE_PEEK_AGAIN", "1", 1);
    personality((unsigned long)now & ~(unsigned long)ADDR_NO_RANDOMIZE);
    execv("/proc/self/exe", arguments);
    return TRY_AGAIN;
  }

  char* heaps = heaps_here(); /* as far into the library there as here */
  if (heaps) heaps = (char*)base + (heaps - (char*)where.dli_fbase);
  char* text = mmap(NULL, TEXT_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (text == MAP_FAILED) return fprintf(stderr, "no room for the text: %s\n", strerror(errno)), OTHER_FILE;
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
  action.sa_sigaction = fetch_page;
  sigaction(SIGSEGV, &action, NULL);
  if (count == 5) {
    int (*profile)(void*, int);
    *(void**)&profile = dlsym(library, "mortise_profile_peek");
    return profile && profile((void*)theirs.heap, 1) ? 0 : NO_PROFILE;
  }
  size_t length = peek((void*)theirs.heap, (void*)theirs.events, heaps, text, TEXT_MAX);
  if (length >= TEXT_MAX) return fprintf(stderr, "it says %zu bytes, expected less than %d\n", length, TEXT_MAX), OTHER_FILE;
  puts(text);
  return 0;
}
