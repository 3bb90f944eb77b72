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
  /// What the setting takes, where it was not that; null where it was taken.
  template <class Text> static const char* take(Text, Text) noexcept { return "an allocator with affinity pools, such as hslab+affinity"; }
  static void hand_over(H&) noexcept {}
  static void at_exit(H&) noexcept {}
  static void unloaded(H&) noexcept {}
  static void shut_in() noexcept {}
};

template <class H> requires kReadsCalls<H> struct AffinitySettings<H> {
  using Options = typename H::ChooserType::OptionsType;

  template <class Text> static const char* take(Text key, Text value) noexcept {
    Options& o = affinity_options<H>;
    constexpr const char* kPath = "a path of at most 200 characters";
    const auto number = [&](auto& to, std::int64_t least, std::int64_t most) {
      std::int64_t n;
      if (!parse(value, n) || n < least || n > most) return false;
      to = static_cast<std::uint32_t>(n);
      return true;
    };
    const auto unless = [](bool is_taken, const char* expected) { return is_taken ? nullptr : expected; };
    if (key.is("affinity_mode")) return unless(o.set_mode(value.at, value.length), "off, size, site, chain or graph");
    if (key.is("affinity_objects")) return unless(number(o.objects_before_pool, 1, 1'000'000), "a number of objects, 1 to 1000000");
    if (key.is("affinity_bytes")) return unless(number(o.object_bytes_max, 16, 1024), "bytes, 16 to 1024");
    if (key.is("affinity_wrappers")) return unless(o.set_wrappers(value.at, value.length), "strict or liberal");
    if (key.is("affinity_mixing")) return unless(o.set_mixing(value.at, value.length), "off, parts or chains");
    if (key.is("affinity_overhead")) return unless(parse(value, o.overhead_only), "0 or 1");
    if (key.is("affinity_misses")) return unless(number(o.misses_before_look, 1, 1'000'000), "a number of misses, 1 to 1000000");
    if (key.is("affinity_profile")) return unless(number(o.samples_per_second, 0, 10'000), "samples a second, 0 to 10000");
    if (key.is("affinity_sites")) return unless(parse(value, o.patches_sites), "0 or 1");
    if (key.is("affinity_dump")) return unless(keep(value, o.dump), kPath);
    if (key.is("affinity_plan")) return unless(parse(value, o.plan), kPath);
    bool asks;
    if (!parse(value, asks)) return "0 or 1";  // affinity_huge
    o.huge_pages = asks ? HugePages::madvise : HugePages::never;
    return nullptr;
  }
  static void hand_over(H& h) noexcept {
    affinity_options<H>.malloc_in_pool = malloc_in_pool;
    h.chooser().configure(affinity_options<H>);
    if (affinity_options<H>.huge_pages != HugePages::automatic) h.pools().set_huge(affinity_options<H>.huge_pages);
    h.open();
  }
  static void at_exit(H& h) noexcept {
    if (!*affinity_options<H>.dump) return;
    const PathNow now(affinity_options<H>.dump);
    const char* const path = now.text;
    const int fd = os::create_file(path);
    if (fd < 0) return warn_of_file("cannot write ", path);
    os::Output out(fd);
    h.chooser().dump(out);
    if (!out.close()) warn_of_full_file(path);
  }
  static void unloaded(H& h) noexcept { h.chooser().code_unloaded(); }
  static void shut_in() noexcept { H::ChooserType::shut_in(); }
};

}  // namespace mortise::abi
