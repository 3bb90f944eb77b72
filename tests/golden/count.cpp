// Counts the instructions of calls that hit, one trap an instruction, and prints where each one lies:
//
//   malloc libmortise-hslab.so 7e10 7e17 ...
//
// The kernel sends a restartable sequence that is interrupted back to its start, and a trap is an interruption. So the
// counting thread first ends its registration: the area keeps its last values, and the same instructions then run
// undisturbed.
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

extern "C" {
[[gnu::weak]] extern const std::ptrdiff_t __rseq_offset;
[[gnu::weak]] extern const unsigned int __rseq_size;
}

namespace {

constexpr unsigned kTrapsMax = 4000;
std::uintptr_t seen[kTrapsMax];
unsigned traps = 0;
std::uintptr_t stop_at = 0;
void* volatile returned;  // a function that keeps what it returns is no wrapper of malloc: all calls here are one call site

void on_trap(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto at = static_cast<std::uintptr_t>(registers[REG_RIP]);
  if (at == stop_at || traps == kTrapsMax) registers[REG_EFL] &= ~0x100;  // the call has returned
  else if (traps == 0 || seen[traps - 1] != at) seen[traps++] = at;       // a repeated string instruction counts once
}

/// Calls `f(a, b)` with the trap flag set; on_trap clears it at the return address. With other `flags`, the same call from the
/// same place without traps.
constexpr std::uintptr_t kTrap = 0x100;
[[gnu::noinline]] void* stepped(void* f, std::uintptr_t a, std::uintptr_t b, std::uintptr_t flags = kTrap) {
  traps = 0;
  void* result;
  asm volatile(
      "leaq 1f(%%rip), %%rcx\n movq %%rcx, %[stop]\n"
      "movq %%rsp, %%rbx\n andq $-16, %%rsp\n"
      "pushfq\n orq %[flags], (%%rsp)\n popfq\n"
      "call *%%rax\n"
      "1: nop\n"
      "movq %%rbx, %%rsp\n"
      : "=a"(result), [stop] "=m"(stop_at), "+D"(a), "+S"(b)
      : "0"(f), [flags] "r"(flags)
      : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "cc", "memory");
  returned = result;
  return result;
}

void print(const char* what) {
  Dl_info where{};
  dladdr(reinterpret_cast<void*>(seen[0]), &where);
  const auto base = reinterpret_cast<std::uintptr_t>(where.dli_fbase);
  printf("%s %s", what, strrchr(where.dli_fname, '/') + 1);
  for (unsigned i = 0; i < traps; ++i) {
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(seen[i]), &here);
    if (here.dli_fbase == where.dli_fbase) printf(" %lx", static_cast<unsigned long>(seen[i] - base));
    else printf(" elsewhere");
  }
  printf("\n");
}

/// Ends the kernel's care for this thread's rseq area, and puts the core index back that it wiped.
bool leave_rseq() {
  if (!&__rseq_size || __rseq_size == 0) return true;
  auto* area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  std::uint32_t words[8];
  memcpy(words, area, sizeof words);
  for (const unsigned length : {32u, __rseq_size}) {
    if (syscall(SYS_rseq, area, length, 1, 0x53053053) == 0) {
      memcpy(area, words, sizeof words);
      return true;
    }
  }
  perror("rseq");
  return false;
}

void* address_of(const char* name) {
  void* p = dlsym(RTLD_DEFAULT, name);
  if (!p) fprintf(stderr, "count: no %s\n", name), exit(1);
  return p;
}

}  // namespace

int main() {
  constexpr std::size_t kSize = 24;
  static char buffer[1 << 16];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  void* const names[] = {address_of("malloc"), address_of("free"),   address_of("calloc"),
                         address_of("_Znwm"),  address_of("_ZdlPv"), address_of("_ZdlPvm"), address_of("realloc")};
  void* warm[64];
  for (int round = 0; round < 100; ++round) {
    for (void*& p : warm) p = malloc(kSize);
    for (void* p : warm) free(p);
    for (int i = 0; i < 20; ++i) warm[i] = malloc(kSize);  // leaves the cache half full: neither end is a miss
    for (int i = 0; i < 20; ++i) free(warm[i]);
  }
  for (int i = 0; i < 200; ++i) free(stepped(names[0], kSize, 0, 0));  // allocators that look at the caller know this one now
  if (!leave_rseq()) return 1;
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  void* p = stepped(names[0], kSize, 0);
  print("malloc");
  stepped(names[1], reinterpret_cast<std::uintptr_t>(p), 0);
  print("free");
  p = stepped(names[2], 1, kSize);
  print("calloc");
  stepped(names[1], reinterpret_cast<std::uintptr_t>(p), 0);
  p = stepped(names[3], kSize, 0);
  print("operator_new");
  stepped(names[4], reinterpret_cast<std::uintptr_t>(p), 0);
  print("operator_delete");
  p = stepped(names[3], kSize, 0);
  stepped(names[5], reinterpret_cast<std::uintptr_t>(p), kSize);
  print("operator_delete_sized");
  p = stepped(names[6], 0, kSize);
  print("realloc_of_null");
  p = stepped(names[6], reinterpret_cast<std::uintptr_t>(p), kSize - 1);
  print("realloc_in_place");
  free(p);
}
