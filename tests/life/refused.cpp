// A program that shuts itself in, as servers do: from then on the system refuses to restart the sections of other cores (membarrier), or
// ends who asks for that (refused strictly). It builds long lists of small blocks and takes them down, again and again, and its address
// space must not grow by that.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "life.hpp"

namespace {

struct Node {
  Node* next;
};

void build_and_take_down() {
  Node* first = nullptr;
  for (int i = 0; i < 20'000; ++i) {
    auto* const n = static_cast<Node*>(malloc(48));
    EXPECT(n);
    n->next = first, first = n;
  }
  while (Node* const n = first) first = n->next, free(n);
}

std::size_t address_space() {
  char text[128];
  life::read_start("/proc/self/statm", text);
  return strtoul(text, nullptr, 10) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned answer = argc > 1 && !strcmp(argv[1], "strictly") ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
  free(malloc(48));
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, answer), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{.len = sizeof code / sizeof *code, .filter = code};
  EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  for (int i = 0; i < 10; ++i) build_and_take_down();
  const std::size_t before = address_space();
  for (int i = 0; i < 30; ++i) build_and_take_down();
  const std::size_t grown = address_space() - before;
  printf("%zu KiB\n", grown >> 10);
  EXPECT(address_space() <= before + 16 * life::kMiB);
  return 0;
}
