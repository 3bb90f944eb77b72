// Time: coarse enough to be nearly free for the deadlines of purging, all that the allocators need it for; fine for instruments.
//
// The clock is asked in the kernel's own library (the vDSO), past libc's clock_gettime: a program may have put another one in its
// place, as libfaketime does, which wants a thread that libc has made, or allocates. The thread that gives memory back is none such,
// and others ask while they hold a lock of the heap.
#pragma once

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::os {

namespace detail {

using Clock = int (*)(clockid_t, timespec*);

inline int ask_kernel(clockid_t clock, timespec* t) noexcept { return static_cast<int>(syscall(SYS_clock_gettime, clock, t)); }

inline bool is_text(const char* a, const char* b) noexcept {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

/// The function of that name in the library whose headers lie at `base`; null where there is none. Its table of symbols is followed
/// by that of their names.
inline void* find_function(std::uintptr_t base, const char* name) noexcept {
  if (!base) return nullptr;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(base);
  const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
  std::uintptr_t moved_by = 0;
  const ElfW(Dyn)* entry = nullptr;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    if (segments[i].p_type == PT_LOAD && !moved_by) moved_by = base + segments[i].p_offset - segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(base + segments[i].p_offset);
  }
  std::uintptr_t symbols = 0, names = 0;
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = moved_by + entry->d_un.d_ptr;
    if (entry->d_tag == DT_STRTAB) names = moved_by + entry->d_un.d_ptr;
  }
  if (!symbols) return nullptr;
  for (; symbols + sizeof(ElfW(Sym)) <= names; symbols += sizeof(ElfW(Sym))) {
    const auto& symbol = *reinterpret_cast<const ElfW(Sym)*>(symbols);
    if (symbol.st_shndx != SHN_UNDEF && is_text(reinterpret_cast<const char*>(names + symbol.st_name), name))
      return reinterpret_cast<void*>(moved_by + symbol.st_value);
  }
  return nullptr;
}

[[gnu::visibility("hidden")]] inline constinit Clock clock_now = nullptr;

/// Where there is no such library (valgrind) the kernel is called. Hidden, as what it sets is.
[[gnu::visibility("hidden")]] MORTISE_COLD inline Clock find_clock() noexcept {
#if defined(__x86_64__)
  void* const found = find_function(::getauxval(AT_SYSINFO_EHDR), "__vdso_clock_gettime");
#else
  void* const found = find_function(::getauxval(AT_SYSINFO_EHDR), "__kernel_clock_gettime");
#endif
  const Clock clock = found ? reinterpret_cast<Clock>(found) : ask_kernel;
  __atomic_store_n(&clock_now, clock, __ATOMIC_RELAXED);
  return clock;
}

}  // namespace detail

/// Milliseconds since boot, at the resolution of the kernel's tick. No system call.
inline std::uint64_t now_ms() noexcept {
  timespec ts{};
  detail::Clock clock = __atomic_load_n(&detail::clock_now, __ATOMIC_RELAXED);
  if (!clock) [[unlikely]] clock = detail::find_clock();
  clock(CLOCK_MONOTONIC_COARSE, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1000 + static_cast<std::uint64_t>(ts.tv_nsec) / 1'000'000;
}

/// The CPU's constant-rate counter, in its own ticks; about 10 ns, no system call, not a serialising instruction. Compare
/// readings of two CPUs only where the kernel's clock source is this counter.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  std::uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
  return std::uint64_t{high} << 32 | low;
#else
  std::uint64_t now;
  asm volatile("isb; mrs %0, cntvct_el0" : "=r"(now) : : "memory");
  return now;
#endif
}

}  // namespace mortise::os
