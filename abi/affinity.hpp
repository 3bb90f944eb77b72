// Allocators that choose a pool by the call: their settings, and how an entry point tells them where it was called from.
#pragma once

#include <string.h>

#include <cstdint>

#include "abi/heap.hpp"

namespace mortise::abi {

/// True for a heap with a layer that looks at the caller.
template <class H> inline constexpr bool kReadsCalls = requires { requires H::kReadsCalls; };

/// True for one that lets requests and blocks through to a heap below it that keeps nothing for a thread.
template <class H> inline constexpr bool kPassesAlone = requires { requires H::kPassesAlone; };

/// The address of the word that holds the return address of the function this is inlined into; the caller's frame lies above.
/// Only of use in a function that a program calls.
MORTISE_HOT const void* call_site() noexcept {
#if defined(__x86_64__)
  return static_cast<const std::uintptr_t*>(__builtin_dwarf_cfa()) - 1;
#else
  return nullptr;
#endif
}

/// Jumped to on a miss, with nothing of the entry point's frame left: saves the registers that calls preserve right below the
/// return address, where the heap finds them, and calls `kSlow` with the address of that word as fourth argument.
#if defined(__x86_64__)
template <auto kSlow> [[gnu::naked, gnu::noinline]] void* with_registers(std::size_t, std::size_t, bool) {
  asm("push %%r15\n .cfi_adjust_cfa_offset 8\n push %%r14\n .cfi_adjust_cfa_offset 8\n"
      "push %%r13\n .cfi_adjust_cfa_offset 8\n push %%r12\n .cfi_adjust_cfa_offset 8\n"
      "push %%rbp\n .cfi_adjust_cfa_offset 8\n push %%rbx\n .cfi_adjust_cfa_offset 8\n"
      "lea 48(%%rsp), %%rcx\n sub $8, %%rsp\n .cfi_adjust_cfa_offset 8\n"
      "call %P0\n"
      "add $56, %%rsp\n .cfi_adjust_cfa_offset -56\n ret" ::"i"(kSlow));
}
#endif

/// What a call of malloc leads to that carries its pool.
void* malloc_in_pool(std::size_t size, std::uint32_t pool) noexcept;

/// What has been set for the heap's Chooser; handed over once all settings are read.
template <class H> constinit inline typename H::ChooserType::OptionsType affinity_options{};

template <class H> struct AffinitySettings {
  static constexpr bool kAny = false;
  template <class Text, class Warn> static void apply(Text, Text, Warn&& warn) noexcept {
    warn("affinity_*", "an allocator with affinity pools, such as hslab+affinity");
  }
  static void hand_over(H&) noexcept {}
  static void at_exit(H&) noexcept {}
  static void unloaded(H&) noexcept {}
};

template <class H> requires kReadsCalls<H> struct AffinitySettings<H> {
  static constexpr bool kAny = true;
  using Options = typename H::ChooserType::OptionsType;

  template <class Text, class Warn> static void apply(Text key, Text value, Warn&& warn) noexcept {
    Options& o = affinity_options<H>;
    std::int64_t n;
    if (key.is("affinity_mode")) {
      if (!o.set_mode(value.at, value.length)) warn("affinity_mode", "off, size, site, chain or graph");
    } else if (key.is("affinity_objects")) {
      if (parse(value, n) && n >= 1 && n <= 1'000'000) o.objects_before_pool = static_cast<std::uint32_t>(n);
      else warn("affinity_objects", "a number of objects, 1 to 1000000");
    } else if (key.is("affinity_bytes")) {
      if (parse(value, n) && n >= 16 && n <= 1024) o.object_bytes_max = static_cast<std::uint32_t>(n);
      else warn("affinity_bytes", "bytes, 16 to 1024");
    } else if (key.is("affinity_wrappers")) {
      if (!o.set_wrappers(value.at, value.length)) warn("affinity_wrappers", "strict or liberal");
    } else if (key.is("affinity_mixing")) {
      if (!o.set_mixing(value.at, value.length)) warn("affinity_mixing", "off, parts or chains");
    } else if (key.is("affinity_overhead")) {
      if (!parse(value, o.overhead_only)) warn("affinity_overhead", "0 or 1");
    } else if (key.is("affinity_misses")) {
      if (parse(value, n) && n >= 1 && n <= 1'000'000) o.misses_before_look = static_cast<std::uint32_t>(n);
      else warn("affinity_misses", "a number of misses, 1 to 1000000");
    } else if (key.is("affinity_huge")) {
      if (bool asks; parse(value, asks)) o.huge_pages = asks ? HugePages::madvise : HugePages::never;
      else warn("affinity_huge", "0 or 1");
    } else if (key.is("affinity_sites")) {
      if (!parse(value, o.patches_sites)) warn("affinity_sites", "0 or 1");
    } else if (key.is("affinity_dump")) {
      if (!parse(value, o.dump)) warn("affinity_dump", "a path of at most 200 characters");
    } else if (key.is("affinity_profile")) {
      if (parse(value, n) && n >= 0 && n <= 10'000) o.samples_per_second = static_cast<std::uint32_t>(n);
      else warn("affinity_profile", "samples a second, 0 to 10000");
    } else if (!key.is("affinity_plan") || !parse(value, o.plan)) {
      warn("affinity_plan", "a path of at most 200 characters");
    }
  }
  static void hand_over(H& h) noexcept {
    affinity_options<H>.malloc_in_pool = malloc_in_pool;
    h.chooser().configure(affinity_options<H>);
    if (affinity_options<H>.huge_pages != HugePages::automatic) h.pools().set_huge(affinity_options<H>.huge_pages);
    h.open();
  }
  static void at_exit(H& h) noexcept { h.chooser().dump(); }
  static void unloaded(H& h) noexcept { h.chooser().code_unloaded(); }
};

}  // namespace mortise::abi
