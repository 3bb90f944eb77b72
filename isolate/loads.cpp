// loads.cpp: repeating in all address spaces what the loader did in one.
//
// The loader tells debuggers by calling an empty function. A library is mapped then, and neither relocated nor run: what becomes of
// its data from there on is seen by all.
//
//   pieces of a library   code, constants: mapped from its file, as here
//                         data, bss, relocated constants: copied to a file in memory, which replaces them here and
//                         is mapped by the others; so is all of a library whose file has no name any more
#include "loads.hpp"

#include <cstring>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "descriptors.hpp"
#include "end.hpp"
#include "glibc.hpp"
#include "lock.hpp"
#include "maps.hpp"
#include "message.hpp"
#include "protection.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "share.hpp"
#include "thread.hpp"
#include "tls.hpp"

namespace mortise::isolate {
namespace {

constexpr int kObjectsMax = 1024, kPiecesMax = 8192;

struct Piece {
  std::uintptr_t low, high;
  int protection, flags;
  long fd;
  std::uint64_t offset;
};

struct Object {
  std::uintptr_t base, low, high;
  bool is_there, lacks_tls;
};

struct Loading {
  Piece pieces[kPiecesMax];
  int piece_count;
  Object gone[kObjectsMax];
  int gone_count;
  long data;  // the file in memory of all data of this call
  std::uint64_t data_end;
  Thread* loader;
};

// The loader holds its own lock whenever it calls, and that of its list whenever it goes through that: who has only the latter may look, too.
constinit Object objects[kObjectsMax]{};
constinit int object_count = 0;
constinit Loading loading{};

Object place_of(const dl_phdr_info& object) noexcept {
  Object o{object.dlpi_addr, ~0ul, 0, true, false};
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& s = object.dlpi_phdr[i];
    o.lacks_tls |= s.p_type == PT_TLS;
    if (s.p_type != PT_LOAD) continue;
    const std::uintptr_t start = object.dlpi_addr + s.p_vaddr;
    if (page_floor(start) < o.low) o.low = page_floor(start);
    if (page_ceil(start + s.p_memsz) > o.high) o.high = page_ceil(start + s.p_memsz);
  }
  return o;
}

/// Remembers it; false when it is known.
bool is_new(const Object& found) noexcept {
  for (int i = 0; i < object_count; ++i)
    if (objects[i].base == found.base && objects[i].low == found.low) return objects[i].is_there = true, false;
  if (object_count == kObjectsMax) return false;
  objects[object_count++] = found;
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
  if (loading.data < 0) loading.data = open_memory_file("mortise-library", 0);
  p.fd = loading.data;
  p.offset = loading.data_end;
  p.flags = MAP_SHARED;
  loading.data_end += static_cast<std::uint64_t>(bytes);
  raw_syscall(SYS_ftruncate, p.fd, static_cast<long>(loading.data_end));
  raw_syscall(SYS_pwrite64, p.fd, static_cast<long>(p.low), bytes, static_cast<long>(p.offset));
  raw_syscall(SYS_mmap, static_cast<long>(p.low), bytes, p.protection, MAP_SHARED | MAP_FIXED, p.fd,
              static_cast<long>(p.offset));
}

/// The file of a piece once more; -1 where it has no name any more, or another file has it.
long open_library(const Mapping& m) noexcept {
  const long file = raw_syscall(SYS_open, as_long(m.name), O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (failed(file)) return -1;
  if (!failed(raw_syscall(SYS_fstat, file, as_long(&status))) && status.st_ino == m.inode) return file;
  raw_syscall(SYS_close, file);
  return -1;
}

void note_pieces(const dl_phdr_info& object, std::uintptr_t low, std::uintptr_t high) noexcept {
  long file = -1;  // one for all its pieces
  Maps maps;
  for (Mapping m; maps.next(m) && m.low < high;) {
    if (m.high <= low || m.shared || loading.piece_count == kPiecesMax) continue;
    // The anonymous end of one library's bss may be joined with what lies behind it.
    Piece& p = loading.pieces[loading.piece_count++];
    p = {m.low < low ? low : m.low, m.high > high ? high : m.high, m.protection(), MAP_PRIVATE, -1, m.offset};
    if (file < 0 && m.inode) file = open_library(m);
    if (in_written_segment(object, p.low) || (m.inode && file < 0)) share_piece(p);
    else if (m.inode) p.fd = file;
  }
}

int look_at_object(dl_phdr_info* info, std::size_t, void* is_first_look) {
  Object found = place_of(*info);
  if (is_first_look) found.lacks_tls = false;
  if (is_new(found) && !is_first_look) note_pieces(*info, found.low, found.high);
  return 0;
}

int doubt_all(dl_phdr_info*, std::size_t, void*) {
  for (int i = 0; i < object_count; ++i) objects[i].is_there = false;
  return 1;  // once is enough
}

/// Takes those that the loader has unmapped out of the table.
int note_gone(dl_phdr_info*, std::size_t, void*) {
  for (int i = 0; i < object_count;) {
    if (objects[i].is_there) {
      ++i;
      continue;
    }
    loading.gone[loading.gone_count++] = objects[i];
    objects[i] = objects[--object_count];
  }
  return 1;  // once is enough
}

/// In the loader's address space, the last.
void note_data() noexcept {
  constexpr int kPlain = PROT_READ | PROT_WRITE;
  for (int i = 0; i < loading.gone_count; ++i) {
    const Object& o = loading.gone[i];
    if (forget_shared_range(o.low, o.high)) note_protection(o.low, o.high, kPlain);
  }
  for (int i = 0; i < loading.piece_count; ++i) {
    const Piece& p = loading.pieces[i];
    if (p.fd < 0 || p.fd != loading.data) continue;
    note_shared_range(p.low, p.high);
    note_protection(p.low, p.high, p.protection);
  }
}

/// In every address space.
void follow(void*) {
  if (self == loading.loader) return note_data();
  for (int i = 0; i < loading.gone_count; ++i) {
    const Object& o = loading.gone[i];
    raw_syscall(SYS_munmap, static_cast<long>(o.low), static_cast<long>(o.high - o.low));
  }
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

/// Where a library's thread-local storage lies below each thread's descriptor; 0 where it is allocated by whoever needs it.
std::size_t static_tls_of(std::uintptr_t base) noexcept {
  constexpr std::size_t kForcedDynamic = ~0ul;
  for (const link_map* m = glibc.tls_offset ? _r_debug.r_map : nullptr; m; m = m->l_next) {  // no dlsym, which waits for whoever loads
    if (m->l_addr != base) continue;
    std::size_t offset;
    std::memcpy(&offset, reinterpret_cast<const std::byte*>(m) + glibc.tls_offset, sizeof offset);
    return offset == kForcedDynamic ? 0 : offset;
  }
  return 0;
}

/// As glibc does for the one thread that it knows of.
int give_tls(dl_phdr_info* info, std::size_t, void*) {
  for (int k = 0; k < object_count; ++k) {
    if (objects[k].base != info->dlpi_addr || !objects[k].lacks_tls) continue;
    objects[k].lacks_tls = false;
    const std::size_t below = static_tls_of(info->dlpi_addr);
    for (int i = 0; below && i < info->dlpi_phnum; ++i) {
      const auto& s = info->dlpi_phdr[i];
      const void* const image = reinterpret_cast<const void*>(info->dlpi_addr + s.p_vaddr);
      if (s.p_type == PT_TLS) set_tls_of_threads(below, image, s.p_filesz, s.p_memsz);
    }
  }
  return 0;
}

/// Pieces with one descriptor come one after the other, but for those of the data.
void close_libraries() noexcept {
  long last = -1;
  for (int i = 0; i < loading.piece_count; ++i) {
    const long fd = loading.pieces[i].fd;
    if (fd < 0 || fd == loading.data || fd == last) continue;
    close_descriptor(static_cast<int>(fd));
    last = fd;
  }
}

}  // namespace

void give_tls_to_threads() noexcept { dl_iterate_phdr(&give_tls, nullptr); }

void note_loaded() noexcept {
  bool is_first_look = true;
  dl_iterate_phdr(&look_at_object, &is_first_look);
}

void follow_loader() noexcept {
  if (!is_thread()) return;
  loading.piece_count = loading.gone_count = 0;
  loading.data = -1;
  loading.data_end = 0;
  loading.loader = self;
  dl_iterate_phdr(&doubt_all, nullptr);
  dl_iterate_phdr(&look_at_object, nullptr);
  dl_iterate_phdr(&note_gone, nullptr);
  if (loading.piece_count == 0 && loading.gone_count == 0) return;
  everywhere(&follow, nullptr);
  close_libraries();
  if (loading.data >= 0) raw_syscall(SYS_close, loading.data);
}

}  // namespace mortise::isolate
