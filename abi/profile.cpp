// The heap profile as text in the form that pprof and jeprof read ("heap_v2"): sums, a line for each call stack, and what
// is mapped where. `mortise profile` makes files and pages of it.
#include <fcntl.h>

#include "abi/heap.hpp"
#include "mortise/os/console.hpp"

namespace mortise::abi {
namespace {

struct Sums {
  std::uint64_t live_blocks = 0, live_bytes = 0, blocks = 0, bytes = 0;
};

void write_sums(os::Line<2048>& line, const Sums& s) noexcept {
  line.number(s.live_blocks).text(": ").number(s.live_bytes).text(" [").number(s.blocks).text(": ").number(s.bytes).text("] @");
}

void copy_file(const char* path, os::Output& out) noexcept {
  const long from = os::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0L);
  if (from < 0) return;
  char piece[4096];
  for (long n; (n = os::syscall(SYS_read, from, piece, sizeof piece)) > 0;) out.write(piece, static_cast<std::size_t>(n));
  os::syscall(SYS_close, from);
}

}  // namespace

template <class H> bool write_profile_of(H& h, os::Output& out, bool is_copy) noexcept {
  if constexpr (Profiles<H>) {
    Sums all;
    h.each_stack([&](const auto& s) {
      all.live_blocks += s.live_blocks;
      all.live_bytes += s.live_bytes;
      all.blocks += s.allocated_blocks;
      all.bytes += s.allocated_bytes;
    });
    os::Line<2048> line;
    line.text("heap profile: ");
    write_sums(line, all);
    line.text(" heap_v2/").number(h.mean()).flush(out);
    h.each_stack([&](const auto& s) {
      write_sums(line, {s.live_blocks, s.live_bytes, s.allocated_blocks, s.allocated_bytes});
      for (std::uint32_t i = 0; i < s.depth; ++i) line.text(" ").hex(s.address[i]);
      line.flush(out);
    });
    if (h.dropped()) line.text("# ").number(h.dropped()).text(" samples could not be recorded").flush(out);
    if (is_copy) return true;  // whoever reads from outside knows what is mapped there
    line.text("\nMAPPED_LIBRARIES:").flush(out);
    copy_file("/proc/self/maps", out);
    return true;
  }
  return false;
}

bool write_profile(os::Output& out) noexcept { return write_profile_of(heap, out, false); }

}  // namespace mortise::abi

/// Writes the profile of a private copy of another process's heap (snapshot.cpp). Returns 0 where there is none.
extern "C" MORTISE_EXPORT int mortise_profile_peek(void* there, int fd) noexcept {
  using mortise::abi::Heap;
  mortise::reset_below(*static_cast<Heap*>(there));
  mortise::os::Output out(fd);
  return mortise::abi::write_profile_of(*static_cast<Heap*>(there), out, true);
}
