// The program's memory as the interpreter may see it: real memory, read so that no address can fault, under a layer of writes
// that never reach it.
//
//   load ─► written words (at most 512, in a hash table) ─► pages seen (a direct-mapped table) ─► the kernel
//
// A page is asked for once an interpretation. While the process has one thread, a page that is readable stays readable, and is
// then read in place; with more threads, another may unmap it meanwhile, so the kernel copies it (process_vm_readv) and the
// copy is read. Where the kernel refuses that call (old seccomp profiles), pages are asked for and read in place only when
// they belong to the thread's own stack or a loaded module.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::affinity {

/// A word of the program as far as it is known. `derived`: it points into the object under observation.
struct Value {
  std::uint64_t bits = 0;
  bool known = false;
  bool derived = false;

  static constexpr Value of(std::uint64_t bits) noexcept { return {bits, true, false}; }
};

/// Real memory that may vanish. Not synchronised. Calls nothing but the kernel; errno stays.
class ForeignMemory {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kPages = 64;

  /// Forgets which pages were seen. `stack`: an address on the caller's own stack, which stays mapped.
  void begin(std::uintptr_t stack) noexcept;
  /// Copies `bytes` (at most a page) from `address`. False if any of them cannot be read.
  bool read(std::uintptr_t address, void* to, std::size_t bytes) noexcept {
    auto* out = static_cast<std::byte*>(to);
    for (;;) {
      const std::size_t offset = address % kPageBytes;
      const std::size_t here = bytes <= kPageBytes - offset ? bytes : kPageBytes - offset;
      const std::byte* const from = page(address / kPageBytes);
      if (!from) return false;
      __builtin_memcpy(out, from + offset, here);
      if (!(bytes -= here)) return true;
      address += here, out += here;
    }
  }
  /// Where the `bytes` at `address` can be read, until the next call; null where they lie on two pages, or cannot be.
  const std::byte* in_page(std::uintptr_t address, std::size_t bytes) noexcept {
    if (address % kPageBytes > kPageBytes - bytes) return nullptr;
    const std::byte* const from = page(address / kPageBytes);
    return from ? from + address % kPageBytes : nullptr;
  }

 private:
  const std::byte* page(std::uintptr_t number) noexcept {
    const Seen& s = seen_[number % kPages];
    return s.number == number ? s.bytes : ask_for(number);
  }
  const std::byte* ask_for(std::uintptr_t number) noexcept;

  struct Seen {
    std::uintptr_t number;
    const std::byte* bytes;  // null: cannot be read
  };
  Seen seen_[kPages] = {};
  std::uintptr_t stack_ = 0;
  bool alone_ = false;
  std::byte copies_[kPages][kPageBytes] = {};
};

/// Writes that stay here. Words of eight bytes with a mask of what was written and of what is known.
class ShadowMemory {
 public:
  static constexpr unsigned kWrites = 512;

  void begin(std::uintptr_t stack) noexcept;
  /// The `bytes` (1..8) at `address`. `readable` becomes false where there is no memory.
  Value load(std::uintptr_t address, unsigned bytes, bool& readable) noexcept;
  /// False when the table is full.
  bool store(std::uintptr_t address, unsigned bytes, Value value) noexcept;
  bool full() const noexcept { return count_ >= kWrites; }
  unsigned count() const noexcept { return count_; }
  /// Whether the whole word at `address` was written with a pointer into the object and not overwritten.
  bool holds_derived(std::uintptr_t address) const noexcept;
  ForeignMemory& real() noexcept { return real_; }

 private:
  static constexpr unsigned kSlots = 1024;
  struct Word {
    std::uintptr_t at;  // a multiple of eight
    std::uint64_t bits;
    std::uint16_t slot;
    std::uint8_t written, known;
    bool derived;
  };
  static unsigned slot_of(std::uintptr_t at) noexcept { return static_cast<unsigned>((at >> 3) * 0x9e3779b1u) % kSlots; }
  const Word* find(std::uintptr_t at) const noexcept;
  Word* claim(std::uintptr_t at) noexcept;
  bool store_part(std::uintptr_t at, unsigned from, unsigned bytes, std::uint64_t bits, bool known, bool derived) noexcept;

  std::uint16_t slots_[kSlots] = {};  ///< by hash, numbers of words; 0: none
  Word words_[kWrites + 1] = {};      ///< from 1 on, as they were written: few words touch few pages
  unsigned count_ = 0;
  ForeignMemory real_;
};

}  // namespace mortise::affinity
