// glibc.hpp: what the runtime must know about the C library it finds.
//
// glibc describes its thread descriptor to debuggers in exported tables (`_thread_db_*`: bits, count, offset). The
// runtime reads these instead of assuming offsets, checks them against what the kernel says, and touches nothing else
// inside.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::isolate {

struct Glibc {
  std::size_t tid = 0;           // offset of the kernel's thread id in the descriptor
  std::size_t cancel = 0;        // offset of the cancellation bits
  std::size_t tls_offset = 0;    // offset in a library's link_map of where its static thread-local storage lies; 0: not told
  std::size_t list = 0;          // offset of the link in glibc's lists of threads
  std::size_t robust_head = 0;   // offset of the head of the list of robust mutexes held
  std::size_t stack = 0;         // offset of where the stack begins and how long it is; 0: not found
  std::ptrdiff_t rseq = 0;       // offset of the restartable-sequence area from the thread pointer
  std::uint32_t rseq_bytes = 0;  // 0: not registered by this glibc
  void* (*allocate_tls)(void*) = nullptr;
  void (*deallocate_tls)(void*, bool) = nullptr;
  void (*call_tls_destructors)() = nullptr;
  void (*init_ctype)() = nullptr;
  struct Key {
    std::uintptr_t sequence;  // odd: in use
    void (*destructor)(void*);
  }* keys = nullptr;  // 1024 of them
  const char* version = "?";
};

inline constexpr int kKeysMax = 1024;

extern Glibc glibc;

/// Fills `glibc`. False when anything is missing or does not agree with the kernel: then `reason` says what, and the
/// program keeps ordinary threads.
bool recognise_glibc(const char*& reason) noexcept;

}  // namespace mortise::isolate
