// Restartable sequences: per-core data without locks and without atomic read-modify-writes.
//
// A thread that runs a section is preempted, migrated or signalled: the kernel sends it back to the section's start. So the last
// instruction of a section, one plain store, commits all or nothing, and a magazine of pointers per core needs no lock:
//
//   Magazine            low address
//   ┌───────┬───────┬────────┬─────────┬─────────┬─────┐
//   │ count │ limit │ number │ slot[0] │ slot[1] │ ... │      pop: read slot[count-1], commit count-1
//   └───────┴───────┴────────┴─────────┴─────────┴─────┘      push: write slot[count],   commit count+1
//
// A metered pop counts bytes down as well, on a meter of the core, and misses while that is below zero: two instructions more.
//
// All of a core's magazines lie in one *set*, a magazine every kStride bytes; a table gives the set of each core index.
// A set of zeros is a valid closed one: count 0 and limit 0 make every pop and every push miss.
//
// The index is the kernel's per-address-space concurrency id where it has one (Linux 6.3), else the CPU number. Without the
// kernel's help (glibc before 2.35, valgrind, sanitizers) a thread's own area stands in for the kernel's: the same instructions
// then work on magazines that only this thread uses. [Desnoyers15] rseq; [Hunter21] per-CPU caches in tcmalloc.
//
// A library with sections in it must stay when it is closed (link it with -Wl,-z,nodelete): a thread's area points to the descriptor of
// the section that it ran last, and the kernel ends a thread whose descriptor is gone.
#pragma once

#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>

#include "mortise/core/bits.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/os/cpus.hpp"
#include "mortise/os/isolation.hpp"

// glibc 2.35 registers each thread's area and says where it is; both are null where it does not.
extern "C" {
[[gnu::weak]] extern const std::ptrdiff_t __rseq_offset;
[[gnu::weak]] extern const unsigned int __rseq_size;
}

// Sanitizers do not see what a section does. gcc and clang name them differently.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MORTISE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define MORTISE_SANITIZED 1
#endif
#endif

namespace mortise::os {

/// A bounded stack of free blocks of one size class; only ever changed by sections, or while its set is out of the table.
struct Magazine {
  static constexpr unsigned kSlots = 254;
  static constexpr std::size_t kStride = 2048;  // a power of two: the place is on the path from free's pointer to its store

  std::uint32_t count;
  std::uint16_t limit;  ///< how many it may hold; 0 = closed
  std::uint8_t number;  ///< which of its set it is, for its owner to note before the limit: plain, for then it stays
  std::byte* slot[kSlots];
  std::int64_t meter;   ///< the first magazine behind where a table points: bytes that metered pops have left; below zero: none

  /// Both may be called while sections read the limit and others set it: each is one access.
  std::uint32_t limit_now() const noexcept { return __atomic_load_n(&limit, __ATOMIC_RELAXED); }
  void set_limit(std::uint32_t blocks) noexcept { __atomic_store_n(&limit, static_cast<std::uint16_t>(blocks), __ATOMIC_RELEASE); }
  /// A glance for statistics while others change it.
  std::uint32_t count_now() const noexcept { return __atomic_load_n(&count, __ATOMIC_RELAXED); }
  /// May be called during such a glance; no section may be running on it.
  void set_count(std::uint32_t blocks) noexcept { __atomic_store_n(&count, blocks, __ATOMIC_RELAXED); }
};
static_assert(sizeof(Magazine) == Magazine::kStride, "a magazine's place is its class times the stride");

/// The meter of the set that a table's entry points to. Any thread may read and set it while pops count it down: one of the two is lost.
inline std::int64_t meter_now(const std::byte* set) noexcept {
  return __atomic_load_n(&reinterpret_cast<const Magazine*>(set)->meter, __ATOMIC_RELAXED);
}
inline void set_meter(std::byte* set, std::int64_t bytes) noexcept {
  __atomic_store_n(&reinterpret_cast<Magazine*>(set)->meter, bytes, __ATOMIC_RELAXED);
}

/// What stands in for the kernel's area where restartable sequences are not to be had. One a thread, in its thread record.
struct OwnArea {
  std::uint64_t index;    ///< where the kernel has cpu_id_start and cpu_id
  std::uint64_t section;  ///< where the kernel has rseq_cs; written, never read
};

/// Where a thread's area lies, relative to the thread pointer, and where in it the core index.
struct RseqArea {
  std::ptrdiff_t offset = 0;
  std::ptrdiff_t index_at = 0;
  bool is_kernels = false;      ///< restarted by the kernel: an index may be shared by threads
  bool is_concurrency_id = false;
};

inline RseqArea own_rseq_area(const OwnArea* own_of_this_thread) noexcept {
  const auto offset = reinterpret_cast<const std::byte*>(own_of_this_thread) - static_cast<const std::byte*>(__builtin_thread_pointer());
  return {.offset = offset, .index_at = offset};
}

inline constexpr std::size_t kCpuIdAt = 4;  ///< in the kernel's area

/// The same area, its index the CPU's number.
inline RseqArea indexed_by_cpu(RseqArea area) noexcept {
  if (area.is_concurrency_id) area.index_at = area.offset + static_cast<std::ptrdiff_t>(kCpuIdAt);
  area.is_concurrency_id = false;
  return area;
}

inline RseqArea find_rseq_area(const OwnArea* own_of_this_thread) noexcept {
  [[maybe_unused]] constexpr unsigned kFeatureSizeTag = 27;  // AT_RSEQ_FEATURE_SIZE
  [[maybe_unused]] constexpr std::size_t kConcurrencyIdAt = 24;
#if defined(__x86_64__) && !defined(MORTISE_SANITIZED)
  if (&__rseq_size && __rseq_size >= 20 && own_of_this_thread && cpus_fit_tables()) {
    const auto* kernels = static_cast<const std::byte*>(__builtin_thread_pointer()) + __rseq_offset;
    const auto cpu = *reinterpret_cast<const volatile std::int32_t*>(kernels + kCpuIdAt);
    if (cpu >= 0) {
      RseqArea area;
      area.offset = __rseq_offset;
      area.is_kernels = true;
      area.is_concurrency_id = ::getauxval(kFeatureSizeTag) >= kConcurrencyIdAt + 4 && !may_be_isolated();
      area.index_at = area.offset + static_cast<std::ptrdiff_t>(area.is_concurrency_id ? kConcurrencyIdAt : kCpuIdAt);
      return area;
    }
  }
#endif
  return own_rseq_area(own_of_this_thread);
}

/// The core index of this thread now. Stale as soon as it is read, unless the area is the thread's own.
MORTISE_HOT std::uint32_t rseq_index(const RseqArea& area) noexcept {
  return *reinterpret_cast<const volatile std::uint32_t*>(static_cast<std::byte*>(__builtin_thread_pointer()) + area.index_at);
}

/// Registers this process for membarrier's restart of running sections (needed by `rseq_restart_all`). Linux 5.10.
inline bool rseq_register_restart() noexcept {
  return !may_be_isolated() && syscall(SYS_membarrier, 1L << 8, 0L, 0L) == 0;
}

/// Every section that was running in this process when it was called has been restarted or has ended when it returns.
inline bool rseq_restart_all() noexcept {
  return !may_be_isolated() && syscall(SYS_membarrier, 1L << 7, 0L, 0L) == 0;
}

/// Registers this process for membarrier's fence on all threads (needed by `order_all_threads`). Linux 4.14.
inline bool register_order() noexcept {
  return !may_be_isolated() && syscall(SYS_membarrier, 1L << 4, 0L, 0L) == 0;
}

/// A full fence on every thread of this process, at some moment between the call and the return; those threads need a compiler's fence
/// only. False where the system refuses it, and then nothing is ordered.
inline bool order_all_threads() noexcept {
  return !may_be_isolated() && syscall(SYS_membarrier, 1L << 3, 0L, 0L) == 0;
}

#if defined(__x86_64__) && !defined(MORTISE_SANITIZED)

// One section: its descriptor, the announcement to the kernel, and the way back to 3 when it was interrupted.
// The flag `?` keeps what belongs to a function in its group, so that the linker drops or keeps both.
// r10 and r11 are scratch. No output of an asm with jumps is a variable that the compiler may place: gcc before 12.4 and 13.3 copies
// such outputs on each edge after what that edge assigns itself, and the null of `empty` is overwritten (PR113921).
#define MORTISE_RSEQ_SECTION                                                                  \
  ".pushsection __rseq_cs,\"aw?\"\n .balign 32\n 9: .long 0,0\n .quad 1f,2f-1f,4f\n .popsection\n" \
  ".pushsection .text.rseq_abort,\"ax?\"\n .long 0x53053053\n 4: jmp 3f\n .popsection\n"
#define MORTISE_RSEQ_ENTER(section)                                                           \
  "movq " section ", %%fs:8(%[area])\n"                                                      \
  "1: movl %%fs:(%[index]), %%r10d\n"                                                        \
  "movq (%[table],%%r10,8), %%r10\n"
#define MORTISE_RSEQ_OPEN_SET MORTISE_RSEQ_SECTION "3: leaq 9b(%%rip), %%r10\n" MORTISE_RSEQ_ENTER("%%r10")
#define MORTISE_RSEQ_OPEN MORTISE_RSEQ_OPEN_SET "addq %[bin], %%r10\n"

/// Takes one block out of this core's magazine at byte `bin` of its set; null when it is empty.
/// No lock, no atomic read-modify-write. Wait-free but for restarts, of which there is one per preemption or signal at most.
/// `from`: the magazine that it was in.
MORTISE_HOT std::byte* magazine_pop(const RseqArea& where, std::byte* const* table, std::size_t bin, const Magazine*& from) noexcept {
  register std::byte* top asm("rax");
  register const Magazine* at asm("r10");
  register const std::ptrdiff_t index asm("r8") = where.index_at;  // gcc would load an input to rax, and then copy it
  asm goto volatile(MORTISE_RSEQ_OPEN
      "movl (%%r10), %%r11d\n subl $1, %%r11d\n jb %l[empty]\n"
      "movq 8(%%r10,%%r11,8), %[top]\n"
      "movl %%r11d, (%%r10)\n 2:\n"
      : [top] "=&r"(top), "=&r"(at)
      : [area] "c"(where.offset), [index] "r"(index), [table] "S"(table), [bin] "d"(bin)
      : "r11", "memory", "cc" : empty);
  {
    std::byte* const block = top;
    from = at;
    if (!block) __builtin_unreachable();  // so that the caller's test for null folds into the jump above
    return block;
  }
empty:
  return nullptr;
}

MORTISE_HOT std::byte* magazine_pop(const RseqArea& where, std::byte* const* table, std::size_t bin) noexcept {
  const Magazine* from;
  return magazine_pop(where, table, bin, from);
}

/// The same, and counts `bytes` down on the core's meter; null also while that is below zero. A pop that is interrupted counts twice.
MORTISE_HOT std::byte* magazine_pop_metered(const RseqArea& where, std::byte* const* table, std::size_t bin, std::size_t bytes,
                                            const Magazine*& from) noexcept {
  register std::byte* top asm("rax");
  register const Magazine* at asm("r10");
  register const std::ptrdiff_t index asm("r8") = where.index_at;
  asm goto volatile(MORTISE_RSEQ_OPEN_SET
      "subq %[bytes], %c[meter](%%r10)\n js %l[empty]\n addq %[bin], %%r10\n"
      "movl (%%r10), %%r11d\n subl $1, %%r11d\n jb %l[empty]\n"
      "movq 8(%%r10,%%r11,8), %[top]\n"
      "movl %%r11d, (%%r10)\n 2:\n"
      : [top] "=&r"(top), "=&r"(at)
      : [area] "c"(where.offset), [index] "r"(index), [table] "S"(table), [bin] "d"(bin), [bytes] "r"(bytes),
        [meter] "i"(offsetof(Magazine, meter))
      : "r11", "memory", "cc" : empty);
  {
    std::byte* const block = top;
    from = at;
    if (!block) __builtin_unreachable();
    return block;
  }
empty:
  return nullptr;
}

/// Puts one block into this core's magazine; false when that is full.
MORTISE_HOT bool magazine_push(const RseqArea& where, std::byte* const* table, std::size_t bin, std::byte* block) noexcept {
  asm goto volatile(MORTISE_RSEQ_OPEN
      "movl (%%r10), %%r11d\n cmpw 4(%%r10), %%r11w\n jae %l[full]\n"
      "movq %[block], 8(%%r10,%%r11,8)\n addl $1, %%r11d\n"
      "movl %%r11d, (%%r10)\n 2:\n"
      :
      : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [bin] "r"(bin), [block] "r"(block)
      : "r10", "r11", "memory", "cc" : full);
  return true;
full:
  return false;
}

/// Puts each of `n` blocks into the magazine whose number is given for it, until one is full; returns how many. A section a block;
/// what counts them changes between two.
inline unsigned magazine_push_each(const RseqArea& where, std::byte* const* table, std::byte* const* in, const std::uint8_t* numbers,
                                   unsigned n) noexcept {
  std::int64_t left = -std::int64_t{n};
  std::uint64_t word, section;
  if (n) asm volatile(MORTISE_RSEQ_SECTION "leaq 9b(%%rip), %[section]\n 3: " MORTISE_RSEQ_ENTER("%[section]")
      "movzbl (%[numbers],%[left]), %k[word]\n shll %[stride], %k[word]\n addq %[word], %%r10\n"
      "movl (%%r10), %%r11d\n cmpw 4(%%r10), %%r11w\n jae 8f\n"
      "movq (%[in],%[left],8), %[word]\n movq %[word], 8(%%r10,%%r11,8)\n addl $1, %%r11d\n"
      "movl %%r11d, (%%r10)\n 2: addq $1, %[left]\n jne 3b\n 8:\n"
      : [left] "+&r"(left), [word] "=&r"(word), [section] "=&r"(section)
      : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [in] "r"(in + n), [numbers] "r"(numbers + n),
        [stride] "i"(log2_floor(Magazine::kStride))
      : "r10", "r11", "memory", "cc");
  return static_cast<unsigned>(n + left);
}

/// Takes the newest blocks, up to `n`, into `out`, the newest of them last; returns how many. One section: all of them or a restart.
inline unsigned magazine_take(const RseqArea& where, std::byte* const* table, std::size_t bin, std::byte** out, unsigned n) noexcept {
  std::uint64_t i, j, b;
  asm volatile(MORTISE_RSEQ_OPEN
      "movl (%%r10), %%r11d\n movl %[n], %k[i]\n cmpl %%r11d, %k[i]\n cmoval %%r11d, %k[i]\n"
      "subl %k[i], %%r11d\n leaq 8(%%r10,%%r11,8), %[b]\n"
      "movl %k[i], %k[j]\n testb $1, %b[j]\n je 6f\n"
      "subl $1, %k[j]\n movq (%[b],%[j],8), %%xmm0\n movq %%xmm0, (%[out],%[j],8)\n"
      "6: testl %k[j], %k[j]\n je 8f\n"
      "7: subl $2, %k[j]\n movups (%[b],%[j],8), %%xmm0\n movups %%xmm0, (%[out],%[j],8)\n jne 7b\n"
      "8: movl %%r11d, (%%r10)\n 2:\n"
      : [i] "=&r"(i), [j] "=&r"(j), [b] "=&r"(b)
      : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [bin] "r"(bin), [out] "r"(out), [n] "r"(n)
      : "r10", "r11", "xmm0", "memory", "cc");
  return static_cast<unsigned>(i);
}

/// Puts the last of the `n` blocks at `in` first, as many as fit, so that the foremost is popped next; returns how many. One section.
inline unsigned magazine_give(const RseqArea& where, std::byte* const* table, std::size_t bin, std::byte* const* in, unsigned n) noexcept {
  std::uint64_t i, j, b, q;
  asm volatile(MORTISE_RSEQ_OPEN
      "movl (%%r10), %%r11d\n movzwl 4(%%r10), %k[i]\n xorl %k[j], %k[j]\n"
      "subl %%r11d, %k[i]\n cmovbl %k[j], %k[i]\n cmpl %[n], %k[i]\n cmoval %[n], %k[i]\n"
      "leaq 8(%%r10,%%r11,8), %[b]\n addl %k[i], %%r11d\n"
      "movl %[n], %k[q]\n subl %k[i], %k[q]\n movl %k[i], %k[j]\n testb $1, %b[j]\n je 6f\n"
      "subl $1, %k[j]\n movq (%[in],%[q],8), %%xmm0\n movq %%xmm0, (%[b],%[j],8)\n addl $1, %k[q]\n"
      "6: testl %k[j], %k[j]\n je 8f\n"
      "7: movups (%[in],%[q],8), %%xmm0\n shufpd $1, %%xmm0, %%xmm0\n movups %%xmm0, -16(%[b],%[j],8)\n"
      "addl $2, %k[q]\n subl $2, %k[j]\n jne 7b\n"
      "8: movl %%r11d, (%%r10)\n 2:\n"
      : [i] "=&r"(i), [j] "=&r"(j), [b] "=&r"(b), [q] "=&r"(q)
      : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [bin] "r"(bin), [in] "r"(in), [n] "r"(n)
      : "r10", "r11", "xmm0", "memory", "cc");
  return static_cast<unsigned>(i);
}
#undef MORTISE_RSEQ_OPEN
#undef MORTISE_RSEQ_OPEN_SET
#undef MORTISE_RSEQ_ENTER
#undef MORTISE_RSEQ_SECTION

#else

// Elsewhere, and under sanitizers, the area is always the thread's own, so plain code is enough; statistics glance at the count.
namespace detail {
MORTISE_HOT Magazine& own_magazine(const RseqArea& where, std::byte* const* table, std::size_t bin) noexcept {
  return *reinterpret_cast<Magazine*>(table[rseq_index(where)] + bin);
}
}  // namespace detail

MORTISE_HOT std::byte* magazine_pop(const RseqArea& where, std::byte* const* table, std::size_t bin, const Magazine*& from) noexcept {
  Magazine& m = detail::own_magazine(where, table, bin);
  from = &m;
  const std::uint32_t count = m.count_now();
  if (!count) return nullptr;
  m.set_count(count - 1);
  return m.slot[count - 1];
}
MORTISE_HOT std::byte* magazine_pop(const RseqArea& where, std::byte* const* table, std::size_t bin) noexcept {
  const Magazine* from;
  return magazine_pop(where, table, bin, from);
}
MORTISE_HOT std::byte* magazine_pop_metered(const RseqArea& where, std::byte* const* table, std::size_t bin, std::size_t bytes,
                                            const Magazine*& from) noexcept {
  std::byte* const set = table[rseq_index(where)];
  const std::int64_t left = meter_now(set) - static_cast<std::int64_t>(bytes);
  set_meter(set, left);
  return left < 0 ? nullptr : magazine_pop(where, table, bin, from);
}
MORTISE_HOT bool magazine_push(const RseqArea& where, std::byte* const* table, std::size_t bin, std::byte* block) noexcept {
  Magazine& m = detail::own_magazine(where, table, bin);
  const std::uint32_t count = m.count_now();
  if (count >= m.limit) return false;
  m.slot[count] = block;
  m.set_count(count + 1);
  return true;
}
inline unsigned magazine_push_each(const RseqArea& where, std::byte* const* table, std::byte* const* in, const std::uint8_t* numbers,
                                   unsigned n) noexcept {
  unsigned i = 0;
  while (i < n && magazine_push(where, table, numbers[i] * Magazine::kStride, in[i])) ++i;
  return i;
}
inline unsigned magazine_take(const RseqArea& where, std::byte* const* table, std::size_t bin, std::byte** out, unsigned n) noexcept {
  Magazine& m = detail::own_magazine(where, table, bin);
  const std::uint32_t count = m.count_now();
  const unsigned taken = n < count ? n : count;
  for (unsigned i = 0; i < taken; ++i) out[i] = m.slot[count - taken + i];
  m.set_count(count - taken);
  return taken;
}
inline unsigned magazine_give(const RseqArea& where, std::byte* const* table, std::size_t bin, std::byte* const* in, unsigned n) noexcept {
  Magazine& m = detail::own_magazine(where, table, bin);
  unsigned left = n;
  std::uint32_t count = m.count_now();
  while (left && count < m.limit) m.slot[count++] = in[--left];
  m.set_count(count);
  return n - left;
}

#endif

}  // namespace mortise::os
