// loads.cpp: repeating in all address spaces what the loader did in one.
//
//   pieces of a library   code, constants: mapped from its file, as here
//                         data, bss, relocated constants: copied to a file in memory, which replaces them here and
//                         is mapped by the others
#include "loads.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

#include "descriptors.hpp"
#include "end.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "message.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "share.hpp"
#include "thread.hpp"

namespace mortise::isolate {
namespace {

constexpr int kObjectsMax = 1024, kPiecesMax = 512;

struct Piece {
  std::uintptr_t low, high;
  int protection, flags;
  long fd;
  std::uint64_t offset;
};

struct Loading {
  std::uintptr_t before[kObjectsMax];
  int before_count;
  Piece pieces[kPiecesMax];
  int piece_count;
  long data;  // the file in memory of all data of this call
  std::uint64_t data_end;
  Thread* loader;
};

constinit Lock one_at_a_time;
constinit Loading loading;

int note_object(dl_phdr_info* info, std::size_t, void*) {
  if (loading.before_count < kObjectsMax) loading.before[loading.before_count++] = info->dlpi_addr;
  return 0;
}

bool is_new(std::uintptr_t base) noexcept {
  for (int i = 0; i < loading.before_count; ++i)
    if (loading.before[i] == base) return false;
  return true;
}

bool in_written_segment(const dl_phdr_info& object, std::uintptr_t address) noexcept {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& s = object.dlpi_phdr[i];
    const std::uintptr_t low = object.dlpi_addr + s.p_vaddr;
    if (s.p_type == PT_LOAD && (s.p_flags & PF_W) && page_floor(low) <= address && address < page_ceil(low + s.p_memsz))
      return true;
  }
  return false;
}

/// Replaces a private piece by shared memory with the same contents.
void share_piece(Piece& p) noexcept {
  const long bytes = static_cast<long>(p.high - p.low);
  p.fd = loading.data;
  p.offset = loading.data_end;
  p.flags = MAP_SHARED;
  loading.data_end += static_cast<std::uint64_t>(bytes);
  raw_syscall(SYS_ftruncate, p.fd, static_cast<long>(loading.data_end));
  raw_syscall(SYS_pwrite64, p.fd, static_cast<long>(p.low), bytes, static_cast<long>(p.offset));
  raw_syscall(SYS_mmap, static_cast<long>(p.low), bytes, p.protection, MAP_SHARED | MAP_FIXED, p.fd,
              static_cast<long>(p.offset));
  note_shared_range(p.low, p.high);
  if (p.protection != (PROT_READ | PROT_WRITE)) note_protection(p.low, p.high, p.protection);
}

void note_pieces(const dl_phdr_info& object) noexcept {
  std::uintptr_t low = ~0ul, high = 0;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& s = object.dlpi_phdr[i];
    if (s.p_type != PT_LOAD) continue;
    const std::uintptr_t start = object.dlpi_addr + s.p_vaddr;
    if (page_floor(start) < low) low = page_floor(start);
    if (page_ceil(start + s.p_memsz) > high) high = page_ceil(start + s.p_memsz);
  }
  Maps maps;
  for (Mapping m; maps.next(m) && m.low < high;) {
    if (m.high <= low || m.shared || loading.piece_count == kPiecesMax) continue;
    // The anonymous end of one library's bss may be joined with what lies behind it.
    Piece& p = loading.pieces[loading.piece_count++];
    p = {m.low < low ? low : m.low, m.high > high ? high : m.high, m.protection(), MAP_PRIVATE, -1, m.offset};
    if (in_written_segment(object, p.low)) share_piece(p);
    else if (m.inode) p.fd = raw_syscall(SYS_open, as_long(m.name), O_RDONLY | O_CLOEXEC);
  }
}

int note_new_object(dl_phdr_info* info, std::size_t, void*) {
  if (is_new(info->dlpi_addr)) note_pieces(*info);
  return 0;
}

void map_pieces(void*) {
  if (self == loading.loader) return;
  for (int i = 0; i < loading.piece_count; ++i) {
    const Piece& p = loading.pieces[i];
    if (p.fd < 0) continue;
    const long mapped = raw_syscall(SYS_mmap, static_cast<long>(p.low), static_cast<long>(p.high - p.low), p.protection,
                                    p.flags | MAP_FIXED_NOREPLACE, p.fd, static_cast<long>(p.offset));
    if (mapped == static_cast<long>(p.low)) continue;
    say("thread %d has no room for a library at the address where another thread loaded it", self->index);
    end_program(kExitUnsupported);
  }
}

}  // namespace

void* load_everywhere(const char* file, int mode, Load original) noexcept {
  Held held(one_at_a_time);
  loading = {};
  loading.loader = self;
  dl_iterate_phdr(&note_object, nullptr);
  void* handle = original(file, mode);
  if (!handle) return nullptr;
  loading.data = raw_syscall(SYS_memfd_create, as_long("mortise-library"), 1 /* MFD_CLOEXEC */);
  dl_iterate_phdr(&note_new_object, nullptr);
  everywhere(&map_pieces, nullptr);
  for (int i = 0; i < loading.piece_count; ++i)
    if (loading.pieces[i].fd >= 0 && loading.pieces[i].fd != loading.data)
      close_descriptor(static_cast<int>(loading.pieces[i].fd));
  raw_syscall(SYS_close, loading.data);
  return handle;
}

}  // namespace mortise::isolate
