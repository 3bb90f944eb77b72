// early_files.cpp: rights of what each address space has by inheritance.
#include "early_files.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "lazy_files.hpp"
#include "maps.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "signals.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

struct Change {
  std::uintptr_t low, high;
  int protection;
};

void apply(void* argument) noexcept {
  const Change c = *static_cast<const Change*>(argument);
  raw_syscall(SYS_mprotect, static_cast<long>(c.low), static_cast<long>(c.high - c.low), c.protection);
}

/// A private mapping of a file, or what of it the change reaches, that may now be written.
long open_early_file(Change c) noexcept {
  const int asked = c.protection;
  c.protection = PROT_READ | (asked & PROT_EXEC);  // until it is written
  everywhere(&apply, &c);
  if (const long wrong = open_to_writing(c.low, c.high, asked); wrong) return wrong;
  // What is small is copied at once: the kernel may write to it, too.
  return c.high - c.low >= kLazyLeast || promote_all(c.low, c.high, asked) ? 0 : -ENOMEM;
}

long change_rights(const Change& all) noexcept {
  // Here first: the kernel may have something against it, amid the range as well.
  long result = raw_syscall(SYS_mprotect, static_cast<long>(all.low), static_cast<long>(all.high - all.low), all.protection);
  forget_lazy_file(all.low, all.high);
  if (!(all.protection & PROT_WRITE)) {
    Change same = all;
    everywhere(&apply, &same);
    return result;
  }
  Maps maps;
  for (Mapping m; maps.next(m);) {
    Change c{m.low < all.low ? all.low : m.low, m.high < all.high ? m.high : all.high, all.protection};
    if (c.low >= c.high || !m.write) continue;
    if (m.shared || m.inode == 0) everywhere(&apply, &c);
    else if (const long wrong = open_early_file(c); wrong && !failed(result)) result = wrong;
  }
  return result;
}

}  // namespace

long protect_early_file(std::uintptr_t low, std::size_t bytes, int protection) noexcept {
  if (!is_thread()) return raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(bytes), protection);
  if (!divide_lazy_file(low, low + bytes)) return -ENOMEM;
  // Until it is read-only again no handler may write to this thread's own.
  const std::uint64_t mask = block_program_signals();
  const long result = change_rights({low, page_ceil(low + bytes), protection});
  restore_signals(mask);
  return result;
}

}  // namespace mortise::isolate
