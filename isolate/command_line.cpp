// command_line.cpp: a copy of arguments and environment, which stays ordinary memory.
//
// The kernel may be told where they lie, but together with everything else that it keeps of the kind: all of it is in /proc/self/stat.
#include "command_line.hpp"

#include <cstring>
#include <linux/prctl.h>
#include <sys/mman.h>

#include "proc.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

/// The fields of /proc/self/stat that begin behind the name of the program, which may hold spaces and brackets.
class Fields {
 public:
  Fields() noexcept {
    if (!read_of_process(raw_getpid(), "stat", text_, sizeof text_)) return;
    const char* at = std::strrchr(text_, ')');
    for (int i = kFirst; at && i <= kLast; ++i) {
      at = std::strchr(at, ' ');
      const char* number = at ? ++at : nullptr;
      values_[i - kFirst] = number ? read_number(number, 10) : 0;
    }
  }
  /// By its number in proc(5).
  std::uint64_t operator[](int number) const noexcept { return values_[number - kFirst]; }

 private:
  static constexpr int kFirst = 3, kLast = 51;
  char text_[1024];
  std::uint64_t values_[kLast - kFirst + 1]{};
};

}  // namespace

void keep_command_line() noexcept {
  const Fields is;
  const std::uint64_t arguments = is[48], arguments_end = is[49], environment = is[50], environment_end = is[51];
  if (arguments == 0 || arguments_end < arguments || environment_end < environment) return;
  const std::size_t first = arguments_end - arguments, second = environment_end - environment;
  const long bytes = static_cast<long>(page_ceil(first + second));
  const long copy = raw_syscall(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(copy)) return;
  auto* const to = reinterpret_cast<char*>(copy);
  std::memcpy(to, reinterpret_cast<const char*>(arguments), first);
  std::memcpy(to + first, reinterpret_cast<const char*>(environment), second);
  raw_syscall(SYS_mprotect, copy, bytes, PROT_READ);  // and so never taken for memory of the program

  const auto low = static_cast<std::uint64_t>(copy);
  prctl_mm_map all{};
  all.start_code = is[26], all.end_code = is[27];
  all.start_data = is[45], all.end_data = is[46];
  all.start_brk = is[47], all.brk = static_cast<std::uint64_t>(raw_syscall(SYS_brk, 0));
  all.start_stack = is[28];
  all.arg_start = low, all.arg_end = all.env_start = low + first, all.env_end = low + first + second;
  all.exe_fd = ~0u;
  if (failed(raw_syscall(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, as_long(&all), sizeof all, 0))) raw_syscall(SYS_munmap, copy, bytes);
}

}  // namespace mortise::isolate
