// What libc's introspection answers: mallinfo, malloc_info, malloc_stats, malloc_trim, mallopt - about this heap,
// truthfully.
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#include "abi/heap.hpp"
#include "abi/snapshot.hpp"
#include "mortise/os/console.hpp"

namespace mortise::abi {
namespace {

Usage usage() noexcept {
  Usage u;
  read_whole(u, [](Usage& fresh) { tell_below(heap, fresh); });
  return u;
}

#ifdef __GLIBC__
struct mallinfo2 fill(const Usage& u) noexcept {
  struct mallinfo2 m {};
  m.arena = u.mapped - u.large;     // mapped for blocks that are not large ones
  m.hblks = u.large_count;
  m.hblkhd = u.large;
  m.uordblks = u.live - u.large;    // as glibc: blocks mapped by themselves are in hblkhd only
  m.fordblks = u.mapped - u.live;
  m.keepcost = u.dirty;             // what malloc_trim could give back at once
  return m;
}

int clamped(std::size_t n) noexcept { return n > INT_MAX ? INT_MAX : static_cast<int>(n); }
#endif

}  // namespace

}  // namespace mortise::abi

using namespace mortise;
using namespace mortise::abi;

extern "C" {

#ifdef __GLIBC__  // other libraries have neither these structures nor these parameters
MORTISE_EXPORT struct mallinfo2 mallinfo2() noexcept { return fill(usage()); }

/// The old form counts in int: values that do not fit stop at INT_MAX instead of wrapping.
MORTISE_EXPORT struct mallinfo mallinfo() noexcept {
  const struct mallinfo2 m = fill(usage());
  struct mallinfo old {};
  old.arena = clamped(m.arena);
  old.hblks = clamped(m.hblks);
  old.hblkhd = clamped(m.hblkhd);
  old.uordblks = clamped(m.uordblks);
  old.fordblks = clamped(m.fordblks);
  old.keepcost = clamped(m.keepcost);
  return old;
}

#endif

/// For libraries that ask what the program's malloc holds: only one that serves malloc has it.
MORTISE_EXPORT std::size_t mortise_malloc_stats_json(char* out, std::size_t capacity) noexcept {
  return write_own_json(out, capacity);
}

MORTISE_EXPORT void malloc_stats() noexcept {
  os::Output standard_error(2);
  print_statistics(standard_error);
}

/// XML in the form of glibc's, with what this heap knows. `options` must be 0.
MORTISE_EXPORT int malloc_info(int options, FILE* out) noexcept {
  if (options != 0) return 22;  // EINVAL, as glibc
  const Usage u = usage();
  os::Line<2048> text;
  const auto entry = [&](const char* name, std::size_t bytes) {
    text.text("<").text(name).text(" size=\"").number(bytes).text("\"/>\n");
  };
  text.text("<malloc version=\"mortise-").text(Card::kName).text("-1\">\n<heap nr=\"0\">\n</heap>\n");
  text.text("<total type=\"rest\" count=\"1\" size=\"").number(u.cached + u.dirty).text("\"/>\n");
  text.text("<total type=\"mmap\" count=\"").number(u.large_count).text("\" size=\"").number(u.large).text("\"/>\n");
  text.text("<system type=\"current\" size=\"").number(u.mapped).text("\"/>\n");
  entry("live", u.live);
  entry("cached", u.cached);
  entry("dirty", u.dirty);
  entry("purged", u.purged);
  entry("bookkeeping", u.meta);
  text.text("</malloc>\n");
  return fwrite(text.data(), 1, text.length(), out) == text.length() ? 0 : -1;
}

/// Empties the caches and gives all free pages back. Returns 1 when there were any.
MORTISE_EXPORT int malloc_trim(std::size_t) noexcept {
  if (!prepare_thread()) return 0;
  const std::size_t given = trim_below(heap, thread());
  leave_if_ended();
  return given > 0;
}

#ifdef __GLIBC__
/// glibc's tuning parameters are accepted, so that programs that set them go on; they have no effect here, but for
/// M_TRIM_THRESHOLD with -1, which turns purging off. Unknown parameters return 0.
MORTISE_EXPORT int mallopt(int param, int value) noexcept {
  switch (param) {
    case M_TRIM_THRESHOLD:
      if (value < 0) set_purge_ms_below(heap, -1);
      return 1;
    case M_MXFAST: case M_TOP_PAD: case M_MMAP_THRESHOLD: case M_MMAP_MAX: case M_CHECK_ACTION: case M_PERTURB:
    case M_ARENA_TEST: case M_ARENA_MAX:
      return 1;
    default:
      return 0;
  }
}
#endif

}  // extern "C"
