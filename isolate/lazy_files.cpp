// lazy_files.cpp: copying a block of a file mapping when it is first written.
//
//   mapping   | block 0, read-only file | block 1: shared memory | block 2, read-only file | ...      blocks of 2 MB
//
// A write faults. Under the lock: copy the block into a file in memory; in a rendezvous map that file over the block in
// every address space. Then the write runs again. Threads that read meanwhile see the same bytes before and after.
#include "lazy_files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>

#include "descriptors.hpp"
#include "file_maps.hpp"
#include "lock.hpp"
#include "protection.hpp"
#include "quiet.hpp"
#include "ranges.hpp"
#include "raw.hpp"
#include "rendezvous.hpp"
#include "share.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kFilesMax = 1024;
constexpr int kPlain = PROT_READ | PROT_WRITE;
constexpr std::uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kOfFile = 1ull << 61;

struct LazyFile {
  std::uintptr_t low, high;
};

constinit Lock lock;  // of Answering: promoting is done in a rendezvous, whose tasks do not take it
constinit LazyFile files[kFilesMax]{};
constinit std::size_t count = 0;

LazyFile* find(std::uintptr_t address) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    if (files[i].low <= address && address < files[i].high) return &files[i];
  return nullptr;
}

struct Promotion {
  std::uintptr_t low, high;
  long file;
  int protection;
};

void map_block(void* argument) {
  const Promotion p = *static_cast<const Promotion*>(argument);
  catch_up_file(p.low);  // a later catch-up would hide the block again
  raw_syscall(SYS_mmap, static_cast<long>(p.low), static_cast<long>(p.high - p.low), p.protection,
              MAP_SHARED | MAP_FIXED, p.file, 0);
}

/// Copies page by page where a large copy fails: the last page of a mapping may lie behind its file's end.
void copy_block(const Promotion& p) noexcept {
  const long bytes = static_cast<long>(p.high - p.low);
  if (raw_syscall(SYS_pwrite64, p.file, static_cast<long>(p.low), bytes, 0) == bytes) return;
  for (long at = 0; at < bytes; at += kPage)
    raw_syscall(SYS_pwrite64, p.file, static_cast<long>(p.low) + at, kPage, at);
}

bool promote(const LazyFile& f, std::uintptr_t address, int protection = kPlain) noexcept {
  Promotion p{address / kLazyBlock * kLazyBlock, address / kLazyBlock * kLazyBlock + kLazyBlock, -1, protection};
  if (p.low < f.low) p.low = f.low;
  if (p.high > f.high) p.high = f.high;
  if (find_shared_range(address)) return false;  // memory already: a matter of its protection
  p.file = open_memory_file("mortise-written", p.high - p.low);
  if (failed(p.file)) return false;
  copy_block(p);
  const bool noted = (protection == kPlain || note_protection(p.low, p.high, protection)) && note_shared_range(p.low, p.high);
  if (noted) everywhere(&map_block, &p);
  raw_syscall(SYS_close, p.file);
  return noted;
}

bool adopt(std::uintptr_t low, std::uintptr_t high, int rights) noexcept {
  Answering held(lock);
  if (count == kFilesMax) return false;
  if (failed(raw_syscall(SYS_mprotect, static_cast<long>(low), static_cast<long>(high - low), rights))) return false;
  files[count] = {low, high};
  shared(count).fetch_add(1);
  return true;
}

bool was_written(long pagemap, std::uintptr_t low, std::uintptr_t high) noexcept {
  std::uint64_t entries[kLazyBlock / kPage];
  const long bytes = static_cast<long>((high - low) / kPage * sizeof entries[0]);
  if (raw_syscall(SYS_pread64, pagemap, as_long(entries), bytes, static_cast<long>(low / kPage * 8)) != bytes)
    return true;
  for (std::size_t i = 0; i < (high - low) / kPage; ++i)
    if ((entries[i] & kSwapped) || ((entries[i] & kPresent) && !(entries[i] & kOfFile))) return true;
  return false;
}

}  // namespace

bool has_lazy_files() noexcept { return shared(count).load(std::memory_order_relaxed) != 0; }

bool has_lazy_file(std::uintptr_t address) noexcept {
  if (!has_lazy_files()) return false;
  Answering held(lock);
  return find(address) != nullptr;
}

bool is_lazy_file(const Mapping& m) noexcept {
  if (m.inode == 0 || !m.write || m.bytes() < kLazyLeast) return false;
  // The data of a program or library: its code is mapped from the same file.
  Maps maps;
  for (Mapping other; maps.next(other);)
    if (other.inode == m.inode && other.execute) return false;
  return count < kFilesMax;
}

bool adopt_lazy_file(std::uintptr_t low, std::uintptr_t high) noexcept { return adopt(low, high, PROT_READ); }

long open_to_writing(std::uintptr_t low, std::uintptr_t high, int protection) noexcept {
  if (!adopt(low, high, PROT_READ | (protection & PROT_EXEC))) return -ENOMEM;
  return !(protection & PROT_EXEC) || promote_all(low, high, protection) ? 0 : -ENOMEM;
}

void promote_written_blocks() noexcept {
  const long pagemap = open_pagemap();
  for (std::size_t i = 0; i < count; ++i)
    for (std::uintptr_t low = files[i].low; low < files[i].high;) {
      std::uintptr_t high = low / kLazyBlock * kLazyBlock + kLazyBlock;
      if (high > files[i].high) high = files[i].high;
      if (was_written(pagemap, low, high)) promote(files[i], low);
      low = high;
    }
  raw_syscall(SYS_close, pagemap);
}

bool promote_on_write(std::uintptr_t address) noexcept {
  Answering held(lock);
  const LazyFile* f = find(address);
  return f && promote(*f, address);
}

bool promote_all(std::uintptr_t low, std::uintptr_t high, int protection) noexcept {
  for (std::uintptr_t at = low; at < high; at = at / kLazyBlock * kLazyBlock + kLazyBlock) {
    Answering held(lock);
    const LazyFile* const f = find(at);
    if (!(f && promote(*f, at, protection)) && !find_shared_range(at)) return false;
  }
  return true;
}

bool divide_lazy_file(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (!has_lazy_files()) return true;
  Answering held(lock);
  return divide_ranges(files, count, kFilesMax, low, high);
}

void forget_lazy_file(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (!has_lazy_files()) return;
  Answering held(lock);
  cut_ranges(files, count, kFilesMax, low, high);
}

Lock& lazy_lock() noexcept { return lock; }

}  // namespace mortise::isolate
