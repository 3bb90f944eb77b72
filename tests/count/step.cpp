// The tracer lets the child run to the mark before a call, steps to the mark behind it, and counts the stops that lie
// in the library's code. Four things need care:
//
// - Code outside the library (memset) is not counted: it runs at full speed to a breakpoint where it returns to. -
// Padding that the assembler put before the head of a loop is not counted: where code lies decides how much there is. -
// A repeated string instruction stops once a repetition: stops at the same address as the last one are one instruction.
// - A restartable sequence would be aborted by every stop, for ever. So where one begins, the tracer takes back the
// thread's
//   announcement of it; the kernel then sees ordinary code. The child is alone on its data, so that is safe.
#include "step.hpp"

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
[[gnu::weak]] extern const std::ptrdiff_t __rseq_offset;
[[gnu::weak]] extern const unsigned int __rseq_size;

void* mortise_count_call(void* function, std::uintptr_t first, std::uintptr_t second);
void* mortise_count_marked_call(void* function, std::uintptr_t first, std::uintptr_t second);
extern const char mortise_count_mark[];
}
asm(R"(
.text
mortise_count_call:
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  jmp *%rax
mortise_count_marked_call:
  subq $8, %rsp
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  int3
  call *%rax
mortise_count_mark:
  int3
  addq $8, %rsp
  ret
)");

namespace mortise::count {

void* perform(const Library& library, const Call& call, void* pointer, bool marked) {
  const auto size = static_cast<std::uintptr_t>(call.size);
  const auto old = reinterpret_cast<std::uintptr_t>(pointer);
  std::uintptr_t first = size, second = 0;
  if (call.entry == Entry::free || call.entry == Entry::realloc) first = old, second = size;
  if (call.entry == Entry::calloc) first = 1, second = size;
  if (call.entry == Entry::aligned_alloc) first = call.align, second = size;
  void* const function = library.function[static_cast<unsigned>(call.entry)];
  return marked ? mortise_count_marked_call(function, first, second) : mortise_count_call(function, first, second);
}

namespace {

class Tracer {
 public:
  Tracer(pid_t child, const Library& library) : child_(child), library_(library) {
    // A tracer that gives up must not leave a stopped child behind.
    if (::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL) != 0) fail("cannot trace the child");
    const auto size = library.text_end - library.text_begin;
    in_section_.resize(size);
    foreign_.resize(size);
    for (std::uintptr_t at : library.sections) in_section_[at - library.text_begin] = true;
    for (auto [begin, end] : library.foreign)
      for (std::uintptr_t at = begin; at < end; ++at) foreign_[at - library.text_begin] = true;
    if (&__rseq_size && __rseq_size) {
      // The child was forked from this very thread: its thread pointer is ours.
      const auto* area = static_cast<const std::byte*>(__builtin_thread_pointer()) + __rseq_offset;
      announcement_ = reinterpret_cast<std::uintptr_t>(area) + 8;
    }
  }

  /// False when the child has ended.
  bool run_to_mark() { return resume(PTRACE_CONT); }

  std::uint32_t count_one_call() {
    std::uint32_t count = 0;
    std::uintptr_t last = 0, at = where();
    while (at != mark()) {
      const bool inside = at >= library_.text_begin && at < library_.text_end;
      if (inside) {
        const std::uintptr_t offset = at - library_.text_begin;
        if (!foreign_[offset] && at != last && !is_padding(at)) ++count;
        if (in_section_[offset] && announcement_) poke(announcement_, 0);
        last = at;
        step();
      } else if (last != 0) {
        run_to_return();  // it came from the library, so the top of the stack says where to
      } else {
        step();
      }
      at = where();
    }
    step();  // over the mark
    return count;
  }

 private:
  static std::uintptr_t mark() { return reinterpret_cast<std::uintptr_t>(mortise_count_mark); }

  /// A no-operation of any length. The library lies in our memory as in the child's.
  static bool is_padding(std::uintptr_t at) {
    const auto* byte = reinterpret_cast<const unsigned char*>(at);
    while (*byte == 0x66 || *byte == 0x2e) ++byte;
    return *byte == 0x90 || (byte[0] == 0x0f && byte[1] == 0x1f);
  }

  bool resume(__ptrace_request how) {
    if (::ptrace(how, child_, nullptr, nullptr) != 0) fail("cannot resume the child");
    int status = 0;
    if (::waitpid(child_, &status, 0) != child_) fail("lost the child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) fail("the child was not stopped by a mark");
    return true;
  }
  void step() {
    if (!resume(PTRACE_SINGLESTEP)) fail("the child ended within a call");
  }
  void run_to_return() {
    const std::uintptr_t stack = registers(offsetof(user_regs_struct, rsp));
    const std::uintptr_t to = peek(stack);
    if (to == mark()) {  // a tail call; the mark itself stops it, one byte further on
      if (!resume(PTRACE_CONT)) fail("the child ended within a call");
      set_where(mark());
      return;
    }
    const std::uintptr_t code = peek(to);
    poke(to, (code & ~std::uintptr_t{0xff}) | 0xcc);
    if (!resume(PTRACE_CONT)) fail("the child ended within a call");
    poke(to, code);
    set_where(to);
  }

  std::uintptr_t registers(std::size_t offset) {
    errno = 0;
    return static_cast<std::uintptr_t>(::ptrace(PTRACE_PEEKUSER, child_, offset, nullptr));
  }
  std::uintptr_t where() { return registers(offsetof(user_regs_struct, rip)); }
  void set_where(std::uintptr_t at) {
    if (::ptrace(PTRACE_POKEUSER, child_, offsetof(user_regs_struct, rip), at) != 0) fail("cannot set a register");
  }
  std::uintptr_t peek(std::uintptr_t at) {
    errno = 0;
    const long word = ::ptrace(PTRACE_PEEKDATA, child_, at, nullptr);
    if (errno != 0) fail("cannot read the child's memory");
    return static_cast<std::uintptr_t>(word);
  }
  void poke(std::uintptr_t at, std::uintptr_t word) {
    if (::ptrace(PTRACE_POKEDATA, child_, at, word) != 0) fail("cannot write the child's memory");
  }
  [[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "mortise-count: single-stepping failed: %s\n", what);
    std::exit(1);
  }

  pid_t child_;
  const Library& library_;
  std::vector<bool> in_section_, foreign_;
  std::uintptr_t announcement_ = 0;
};

}  // namespace

std::size_t step_through(pid_t child, const Library& library, std::uint32_t* counts, std::size_t counts_max) {
  Tracer tracer(child, library);
  std::size_t calls = 0;
  while (calls < counts_max && tracer.run_to_mark()) counts[calls++] = tracer.count_one_call();
  return calls;
}

}  // namespace mortise::count
