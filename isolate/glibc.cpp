// glibc.cpp: recognising the C library.
#include "glibc.hpp"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <pthread.h>

#include "raw.hpp"
#include "thread.hpp"

namespace mortise::isolate {

constinit Glibc glibc;

namespace {

constexpr std::size_t kDescriptorMax = 16384;  // no glibc descriptor comes near; a larger offset is not a descriptor's

/// One of glibc's tables for debuggers: {size in bits, number of elements, offset}.
bool read_offset(const char* name, std::uint32_t bits, std::size_t& out) noexcept {
  const auto* table = static_cast<const std::uint32_t*>(dlsym(RTLD_DEFAULT, name));
  if (!table || table[0] != bits || table[2] == 0 || table[2] >= kDescriptorMax) return false;
  out = table[2];
  return true;
}

template <class F>
bool resolve(const char* name, F& out) noexcept {
  out = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  return out != nullptr;
}

bool find_robust_head(std::size_t& out) noexcept {
  std::uintptr_t head = 0;
  std::size_t bytes = 0;
  if (failed(raw_syscall(SYS_get_robust_list, 0, as_long(&head), as_long(&bytes)))) return false;
  out = head - reinterpret_cast<std::uintptr_t>(pthread_self());
  return head != 0 && out < kDescriptorMax;
}

/// Of main it notes a stack from 0 to its end, which is found nowhere else in its descriptor.
void find_stack() noexcept {
  const auto* end = static_cast<const std::uintptr_t*>(dlsym(RTLD_DEFAULT, "__libc_stack_end"));
  const auto* bytes = static_cast<const std::uint32_t*>(dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread"));
  if (!end || !bytes || *end == 0 || *bytes >= kDescriptorMax) return;
  const auto* words = reinterpret_cast<const std::uintptr_t*>(pthread_self());
  std::size_t found = 0, times = 0;
  for (std::size_t i = 1; i < *bytes / sizeof *words; ++i)
    if (words[i] == *end && words[i - 1] == 0) found = i - 1, ++times;
  if (times == 1) glibc.stack = found * sizeof *words;
}

void find_rseq() noexcept {
  const auto* offset = static_cast<const std::ptrdiff_t*>(dlsym(RTLD_DEFAULT, "__rseq_offset"));
  const auto* bytes = static_cast<const std::uint32_t*>(dlsym(RTLD_DEFAULT, "__rseq_size"));
  if (!offset || !bytes || *bytes == 0) return;
  glibc.rseq = *offset;
  glibc.rseq_bytes = 32;  // what every glibc registers; __rseq_size counts the fields in use
}

}  // namespace

bool recognise_glibc(const char*& reason) noexcept {
  glibc.version = gnu_get_libc_version();
  reason = "thread descriptor not recognised";
  if (!read_offset("_thread_db_pthread_tid", 32, glibc.tid)) return false;
  if (!read_offset("_thread_db_pthread_cancelhandling", 32, glibc.cancel)) return false;
  if (!read_offset("_thread_db_pthread_list", 128, glibc.list)) return false;
  const auto* descriptor = reinterpret_cast<const std::byte*>(pthread_self());
  if (*reinterpret_cast<const int*>(descriptor + glibc.tid) != raw_gettid()) return false;
  if (!find_robust_head(glibc.robust_head)) return false;
  read_offset("_thread_db_link_map_l_tls_offset", 64, glibc.tls_offset);
  reason = "internal entry points not found";
  if (!resolve("_dl_allocate_tls", glibc.allocate_tls) || !resolve("_dl_deallocate_tls", glibc.deallocate_tls) ||
      !resolve("__call_tls_dtors", glibc.call_tls_destructors) || !resolve("__ctype_init", glibc.init_ctype) ||
      !resolve("__pthread_keys", glibc.keys))
    return false;
  find_stack();
  find_rseq();
  return true;
}

}  // namespace mortise::isolate
