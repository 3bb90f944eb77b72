// Restartable sequences: per-core data without locks and without atomic read-modify-writes.
//
// A thread that runs a section is preempted, migrated or signalled: the kernel sends it back to the section's start. So the last
// instruction of a section, one plain store, commits all or nothing, and a magazine, a stack of free blocks of one core, needs no lock:
//
//   Rack of a core     low address                            one column a magazine
//   ┌────────┬────────┬────────┬─────┐
//   │ top[0] │ top[1] │ top[2] │ ... │      pop:  top == base? miss; read what lies below the top; commit top - 1
//   ├────────┼────────┼────────┼─────┤      push: top >= limit? miss; write at the top;            commit top + 1
//   │ base   │ base   │ base   │     │
//   ├────────┼────────┼────────┼─────┤      The slots lie elsewhere. Were a magazine's top before its slots, those of all magazines
//   │ limit  │ limit  │ limit  │     │      would meet in a few sets of the cache; here the tops of classes used together share lines.
//   └────────┴────────┴────────┴─────┘
//
// A metered pop counts bytes down as well, on a meter of the core, and misses while that is below zero: two instructions more.
//
// A table gives the rack of each core index, or what lies some columns into it. A rack of zeros is a valid closed one: its tops are where
// its bases and its limits are, so that every pop and every push misses.
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
#include <cstring>

#include "mortise/core/bits.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/os/cpus.hpp"
#include "mortise/os/restraint.hpp"

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

/// What stands in for the kernel's area where restartable sequences are not to be had. One a thread, in its thread record.
struct OwnArea {
  std::uint64_t index, section;  ///< where the kernel has cpu_id_start and cpu_id, and rseq_cs; that is written, never read
};

/// Where a thread's area lies, relative to the thread pointer, and where in it the core index.
struct RseqArea {
  std::ptrdiff_t offset = 0;
  std::ptrdiff_t index_at = 0;
  bool is_kernels = false;      ///< restarted by the kernel: an index may be shared by threads
  bool is_concurrency_id = false;
};

inline RseqArea own_rseq_area(const OwnArea* own_of_this_thread) noexcept {
  auto offset = reinterpret_cast<const std::byte*>(own_of_this_thread) - static_cast<const std::byte*>(__builtin_thread_pointer());
  asm("" : "+r"(offset));  // else the compiler may use where it is kept in ways that static linkers do not know
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
  return may_reach_others() && syscall(SYS_membarrier, 1L << 7, 0L, 0L) == 0;
}

/// Registers this process for membarrier's fence on all threads (needed by `order_all_threads`). Linux 4.14.
inline bool register_order() noexcept {
  return !may_be_isolated() && syscall(SYS_membarrier, 1L << 4, 0L, 0L) == 0;
}

/// A full fence on every thread of this process, at some moment between the call and the return; those threads need a compiler's fence
/// only. False where the system refuses it, and then nothing is ordered.
inline bool order_all_threads() noexcept {
  return may_reach_others() && syscall(SYS_membarrier, 1L << 3, 0L, 0L) == 0;
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
#define MORTISE_RSEQ_OPEN MORTISE_RSEQ_SECTION "3: leaq 9b(%%rip), %%r10\n" MORTISE_RSEQ_ENTER("%%r10")
#endif

/// How many blocks a magazine of a heap may hold at most: at first, and with slots of its own.
inline constexpr unsigned kMagazineSlots = 254, kLongMagazineSlots = 32768;

/// Where one of a row's words lies, from the rack that the table gives.
#define MORTISE_RACK(row, number) "%c[" row "](%%r10,%[" number "],8)"

/// The magazines of a core, bounded stacks of free blocks: only ever changed by sections, or while the rack is out of the table. The
/// operations find the core's rack by `table`, and in it the magazine `number`, counted from where the table's entry points.
/// `kCount`: how many there are.
template <unsigned kCount> struct Rack {
  static constexpr unsigned kColumns = kCount == 1 ? 1 : round_up(kCount, 8);
  static constexpr std::size_t kAlign = 256 * sizeof(std::byte**);  ///< of a rack that number_of is asked about

  std::byte** top[kColumns];
  std::byte** base[kColumns];   ///< null: has no slots yet
  std::byte** limit[kColumns];  ///< null: closed
  std::int64_t meter[kColumns]; ///< the first behind where a table points: bytes that metered pops have left; below zero: none

  /// The table's entry for those who count their magazines from the column `first` of the rack at `rack`.
  static std::byte* entry(std::byte* rack, unsigned first) noexcept { return rack + first * sizeof(std::byte**); }
  /// Which magazine of its rack, which is aligned to kAlign, is number `n` from the entry `from`.
  MORTISE_HOT static std::uint8_t number_of(const std::byte* from, unsigned n) noexcept {
    static_assert(kColumns <= 256);
    return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(from) / sizeof(std::byte**) + n);
  }

  /// Gives it its slots. Before anyone finds the rack, or glances at it.
  void place(unsigned n, std::byte** slots) noexcept { top[n] = base[n] = slots; }
  /// Gives it other slots, no fewer than it may hold; what it holds lies there, too. No section may be running on it, and nobody glance.
  void move(unsigned n, std::byte** slots) noexcept {
    const std::uint32_t count = count_now(n), blocks = limit_now(n);
    std::memcpy(slots, base[n], count * sizeof *slots);
    base[n] = slots, set_count(n, count), set_limit(n, blocks);
  }
  std::byte** slots(unsigned n) noexcept { return base[n]; }
  /// Both may be called while sections read the limit and others set it: each is one access.
  std::uint32_t limit_now(unsigned n) const noexcept {
    std::byte** const at = __atomic_load_n(&limit[n], __ATOMIC_RELAXED);
    return at ? static_cast<std::uint32_t>(at - base[n]) : 0;
  }
  void set_limit(unsigned n, std::uint32_t blocks) noexcept { __atomic_store_n(&limit[n], base[n] + blocks, __ATOMIC_RELEASE); }
  /// A glance for statistics while others change it; exact while it rests.
  std::uint32_t count_now(unsigned n) const noexcept {
    return static_cast<std::uint32_t>(__atomic_load_n(&top[n], __ATOMIC_RELAXED) - base[n]);
  }
  /// How many there are, while no section may be running on it.
  std::uint32_t count(unsigned n) const noexcept { return count_now(n); }
  /// May be called during a glance; no section may be running on it.
  void set_count(unsigned n, std::uint32_t blocks) noexcept { __atomic_store_n(&top[n], base[n] + blocks, __ATOMIC_RELAXED); }

  /// The meter that a table's entry points to. Any thread may read and set it while pops count it down: one of the two is lost.
  static std::int64_t meter_now(const std::byte* from) noexcept {
    return __atomic_load_n(&reinterpret_cast<const Rack*>(from)->meter[0], __ATOMIC_RELAXED);
  }
  static void set_meter(std::byte* from, std::int64_t bytes) noexcept {
    __atomic_store_n(&reinterpret_cast<Rack*>(from)->meter[0], bytes, __ATOMIC_RELAXED);
  }

#if defined(__x86_64__) && !defined(MORTISE_SANITIZED)
#define MORTISE_RACK_ROWS [base] "i"(offsetof(Rack, base)), [limit] "i"(offsetof(Rack, limit)), [top] "i"(offsetof(Rack, top))

  /// Takes one block out of this core's magazine `number`; null when it is empty.
  /// No lock, no atomic read-modify-write. Wait-free but for restarts, of which there is one per preemption or signal at most.
  /// `from`: the table's entry that it was found by.
  MORTISE_HOT static std::byte* pop(const RseqArea& where, std::byte* const* table, std::size_t number, const std::byte*& from) noexcept {
    register std::byte* block asm("rax");
    register const std::byte* at asm("r10");
    register const std::ptrdiff_t index asm("r8") = where.index_at;  // gcc would load an input to rax, and then copy it
    asm goto volatile(MORTISE_RSEQ_OPEN
        "movq " MORTISE_RACK("top", "number") ", %%r11\n cmpq " MORTISE_RACK("base", "number") ", %%r11\n je %l[empty]\n"
        "movq -8(%%r11), %[block]\n subq $8, %%r11\n"
        "movq %%r11, " MORTISE_RACK("top", "number") "\n 2:\n"
        : [block] "=&r"(block), "=&r"(at)
        : [area] "c"(where.offset), [index] "r"(index), [table] "S"(table), [number] "d"(number), MORTISE_RACK_ROWS
        : "r11", "memory", "cc" : empty);
    {
      std::byte* const popped = block;
      from = at;
      if (!popped) __builtin_unreachable();  // so that the caller's test for null folds into the jump above
      return popped;
    }
  empty:
    return nullptr;
  }

  /// The same, and counts `bytes` down on the core's meter; null also while that is below zero. A pop that is interrupted counts twice.
  MORTISE_HOT static std::byte* pop_metered(const RseqArea& where, std::byte* const* table, std::size_t number, std::size_t bytes,
                                            const std::byte*& from) noexcept {
    register std::byte* block asm("rax");
    register const std::byte* at asm("r10");
    register const std::ptrdiff_t index asm("r8") = where.index_at;
    asm goto volatile(MORTISE_RSEQ_OPEN
        "subq %[bytes], %c[meter](%%r10)\n js %l[empty]\n"
        "movq " MORTISE_RACK("top", "number") ", %%r11\n cmpq " MORTISE_RACK("base", "number") ", %%r11\n je %l[empty]\n"
        "movq -8(%%r11), %[block]\n subq $8, %%r11\n"
        "movq %%r11, " MORTISE_RACK("top", "number") "\n 2:\n"
        : [block] "=&r"(block), "=&r"(at)
        : [area] "c"(where.offset), [index] "r"(index), [table] "S"(table), [number] "d"(number), [bytes] "r"(bytes),
          [meter] "i"(offsetof(Rack, meter)), MORTISE_RACK_ROWS
        : "r11", "memory", "cc" : empty);
    {
      std::byte* const popped = block;
      from = at;
      if (!popped) __builtin_unreachable();
      return popped;
    }
  empty:
    return nullptr;
  }

  /// Puts one block into this core's magazine `number`; false when that is full.
  MORTISE_HOT static bool push(const RseqArea& where, std::byte* const* table, std::size_t number, std::byte* block) noexcept {
    asm goto volatile(MORTISE_RSEQ_OPEN
        "movq " MORTISE_RACK("top", "number") ", %%r11\n cmpq " MORTISE_RACK("limit", "number") ", %%r11\n jae %l[full]\n"
        "movq %[block], (%%r11)\n addq $8, %%r11\n"
        "movq %%r11, " MORTISE_RACK("top", "number") "\n 2:\n"
        :
        : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [number] "r"(number), [block] "r"(block),
          MORTISE_RACK_ROWS
        : "r10", "r11", "memory", "cc" : full);
    return true;
  full:
    return false;
  }

  /// Puts each of `n` blocks into the magazine whose number is given for it, until one is full; returns how many. A section a block;
  /// what counts them changes between two.
  static unsigned push_each(const RseqArea& where, std::byte* const* table, std::byte* const* in, const std::uint8_t* numbers,
                            unsigned n) noexcept {
    std::int64_t left = -std::int64_t{n};
    std::uint64_t number, block, section;
    if (n) asm volatile(MORTISE_RSEQ_SECTION "leaq 9b(%%rip), %[section]\n 3: " MORTISE_RSEQ_ENTER("%[section]")
        "movzbl (%[numbers],%[left]), %k[number]\n"
        "movq " MORTISE_RACK("top", "number") ", %%r11\n cmpq " MORTISE_RACK("limit", "number") ", %%r11\n jae 8f\n"
        "movq (%[in],%[left],8), %[block]\n movq %[block], (%%r11)\n addq $8, %%r11\n"
        "movq %%r11, " MORTISE_RACK("top", "number") "\n 2: addq $1, %[left]\n jne 3b\n 8:\n"
        : [left] "+&r"(left), [number] "=&r"(number), [block] "=&r"(block), [section] "=&r"(section)
        : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [in] "r"(in + n), [numbers] "r"(numbers + n),
          MORTISE_RACK_ROWS
        : "r10", "r11", "memory", "cc");
    return static_cast<unsigned>(n + left);
  }

  /// Takes the newest blocks, up to `n`, into `out`, the newest of them last; returns how many. One section: all of them or a restart.
  static unsigned take(const RseqArea& where, std::byte* const* table, std::size_t number, std::byte** out, unsigned n) noexcept {
    std::uint64_t i, j;
    asm volatile(MORTISE_RSEQ_OPEN
        "movq " MORTISE_RACK("top", "number") ", %%r11\n movq %%r11, %[i]\n subq " MORTISE_RACK("base", "number") ", %[i]\n"
        "shrq $3, %[i]\n movl %[n], %k[j]\n cmpq %[j], %[i]\n cmovaq %[j], %[i]\n"
        "leaq (,%[i],8), %[j]\n subq %[j], %%r11\n"
        "movl %k[i], %k[j]\n testb $1, %b[j]\n je 6f\n"
        "subl $1, %k[j]\n movq (%%r11,%[j],8), %%xmm0\n movq %%xmm0, (%[out],%[j],8)\n"
        "6: testl %k[j], %k[j]\n je 8f\n"
        "7: subl $2, %k[j]\n movups (%%r11,%[j],8), %%xmm0\n movups %%xmm0, (%[out],%[j],8)\n jne 7b\n"
        "8: movq %%r11, " MORTISE_RACK("top", "number") "\n 2:\n"
        : [i] "=&r"(i), [j] "=&r"(j)
        : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [number] "r"(number), [out] "r"(out), [n] "r"(n),
          MORTISE_RACK_ROWS
        : "r10", "r11", "xmm0", "memory", "cc");
    return static_cast<unsigned>(i);
  }

  /// Puts the last of the `n` blocks at `in` first, as many as fit, so that the foremost is popped next; returns how many. One section.
  static unsigned give(const RseqArea& where, std::byte* const* table, std::size_t number, std::byte* const* in, unsigned n) noexcept {
    std::uint64_t i, j, b, q;
    asm volatile(MORTISE_RSEQ_OPEN
        "movq " MORTISE_RACK("top", "number") ", %[b]\n movq " MORTISE_RACK("limit", "number") ", %[i]\n xorl %k[j], %k[j]\n"
        "subq %[b], %[i]\n cmovbq %[j], %[i]\n shrq $3, %[i]\n movl %[n], %k[q]\n cmpq %[q], %[i]\n cmovaq %[q], %[i]\n"
        "leaq (%[b],%[i],8), %%r11\n"
        "subl %k[i], %k[q]\n movl %k[i], %k[j]\n testb $1, %b[j]\n je 6f\n"
        "subl $1, %k[j]\n movq (%[in],%[q],8), %%xmm0\n movq %%xmm0, (%[b],%[j],8)\n addl $1, %k[q]\n"
        "6: testl %k[j], %k[j]\n je 8f\n"
        "7: movups (%[in],%[q],8), %%xmm0\n shufpd $1, %%xmm0, %%xmm0\n movups %%xmm0, -16(%[b],%[j],8)\n"
        "addl $2, %k[q]\n subl $2, %k[j]\n jne 7b\n"
        "8: movq %%r11, " MORTISE_RACK("top", "number") "\n 2:\n"
        : [i] "=&r"(i), [j] "=&r"(j), [b] "=&r"(b), [q] "=&r"(q)
        : [area] "r"(where.offset), [index] "r"(where.index_at), [table] "r"(table), [number] "r"(number), [in] "r"(in), [n] "r"(n),
          MORTISE_RACK_ROWS
        : "r10", "r11", "xmm0", "memory", "cc");
    return static_cast<unsigned>(i);
  }
#undef MORTISE_RACK_ROWS

#else

  // Elsewhere, and under sanitizers, the area is always the thread's own, so plain code is enough; statistics glance at the top.
  MORTISE_HOT static std::byte* pop(const RseqArea& where, std::byte* const* table, std::size_t number, const std::byte*& from) noexcept {
    Rack& r = own(where, table);
    from = table[rseq_index(where)];
    std::byte** const top = r.top_now(number);
    if (top == r.base[number]) return nullptr;
    r.set_top(number, top - 1);
    return top[-1];
  }
  MORTISE_HOT static std::byte* pop_metered(const RseqArea& where, std::byte* const* table, std::size_t number, std::size_t bytes,
                                            const std::byte*& from) noexcept {
    std::byte* const entry = table[rseq_index(where)];
    const std::int64_t left = meter_now(entry) - static_cast<std::int64_t>(bytes);
    set_meter(entry, left);
    return left < 0 ? nullptr : pop(where, table, number, from);
  }
  MORTISE_HOT static bool push(const RseqArea& where, std::byte* const* table, std::size_t number, std::byte* block) noexcept {
    Rack& r = own(where, table);
    std::byte** const top = r.top_now(number);
    if (top >= r.limit[number]) return false;
    *top = block;
    r.set_top(number, top + 1);
    return true;
  }
  static unsigned push_each(const RseqArea& where, std::byte* const* table, std::byte* const* in, const std::uint8_t* numbers,
                            unsigned n) noexcept {
    unsigned i = 0;
    while (i < n && push(where, table, numbers[i], in[i])) ++i;
    return i;
  }
  static unsigned take(const RseqArea& where, std::byte* const* table, std::size_t number, std::byte** out, unsigned n) noexcept {
    Rack& r = own(where, table);
    const std::uint32_t count = r.count_now(static_cast<unsigned>(number));
    const unsigned taken = n < count ? n : count;
    std::byte** const top = r.base[number] + (count - taken);
    for (unsigned i = 0; i < taken; ++i) out[i] = top[i];
    r.set_top(number, top);
    return taken;
  }
  static unsigned give(const RseqArea& where, std::byte* const* table, std::size_t number, std::byte* const* in, unsigned n) noexcept {
    Rack& r = own(where, table);
    unsigned left = n;
    std::byte** top = r.top_now(number);
    while (left && top < r.limit[number]) *top++ = in[--left];
    r.set_top(number, top);
    return n - left;
  }

 private:
  MORTISE_HOT static Rack& own(const RseqArea& where, std::byte* const* table) noexcept {
    return *reinterpret_cast<Rack*>(table[rseq_index(where)]);
  }
  MORTISE_HOT std::byte** top_now(std::size_t n) const noexcept { return __atomic_load_n(&top[n], __ATOMIC_RELAXED); }
  MORTISE_HOT void set_top(std::size_t n, std::byte** to) noexcept { __atomic_store_n(&top[n], to, __ATOMIC_RELAXED); }

 public:
#endif

  MORTISE_HOT static std::byte* pop(const RseqArea& where, std::byte* const* table, std::size_t number) noexcept {
    const std::byte* from;
    return pop(where, table, number, from);
  }
};

#undef MORTISE_RACK
#undef MORTISE_RSEQ_OPEN
#undef MORTISE_RSEQ_ENTER
#undef MORTISE_RSEQ_SECTION

}  // namespace mortise::os
