// If this fails, an instruction that is read without the decoder is taken for another one: edges of the graph come from nowhere.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <string.h>

#include <random>

#include "affinity/observe/code.hpp"

namespace mortise::affinity {
namespace {

std::string told(const Operand& o) {
  return testing::PrintToString(std::vector<long>{long(o.place), o.bytes, o.reg, o.index, o.scale, o.high_byte, o.thread_local_, o.opaque, o.value});
}
std::string told(const Op& op) {
  return testing::PrintToString(std::vector<int>{int(op.kind), op.condition, op.length, op.writes_flags, op.writes_general, op.writes_vector, op.keeps_general}) +
         told(op.to) + told(op.a) + told(op.b);
}
std::string in_hex(const std::uint8_t* bytes) {
  std::string text;
  for (unsigned i = 0; i < 16; ++i) text += "0123456789abcdef"[bytes[i] >> 4], text += "0123456789abcdef"[bytes[i] & 15];
  return text;
}

struct Seen {
  unsigned plain = 0, all = 0, different = 0;

  /// The length of the instruction at `pc`, which is looked at both ways; 0 where there is none.
  unsigned look(std::uintptr_t pc, const std::uint8_t* bytes) {
    Op by_decoder, read;
    const bool is_one = lift(pc, bytes, 16, by_decoder);
    all += is_one;
    if (lift_plain(pc, bytes, read)) {
      plain += is_one;
      if ((!is_one || told(by_decoder) != told(read)) && ++different <= 20)
        ADD_FAILURE() << in_hex(bytes) << "\n" << (is_one ? told(by_decoder) : "no instruction") << "\n" << told(read);
    }
    return is_one ? by_decoder.length : 0;
  }
};

TEST(LiftPlain, ReadsTheLibrariesAsTheDecoderDoes) {
  Seen seen;
  const auto each = [](dl_phdr_info* info, std::size_t, void* to) {
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || !(part.p_flags & PF_X) || part.p_memsz < 64) continue;
      const std::uintptr_t first = info->dlpi_addr + part.p_vaddr, last = first + part.p_memsz - 32;
      for (std::uintptr_t pc = first; pc < last && pc < first + 400'000;) {
        const unsigned length = static_cast<Seen*>(to)->look(pc, reinterpret_cast<const std::uint8_t*>(pc));
        pc += length ? length : 1;
      }
    }
    return 0;
  };
  dl_iterate_phdr(each, &seen);
  EXPECT_GT(seen.all, 100'000u);
  EXPECT_GT(seen.plain * 20, seen.all * 18) << "most instructions are plain: " << seen.plain << " of " << seen.all;
}

TEST(LiftPlain, ReadsAnyBytesAsTheDecoderDoes) {
  std::mt19937_64 random(1);
  Seen seen;
  for (unsigned n = 0; n < 300'000; ++n) {
    std::uint8_t bytes[16];
    const std::uint64_t low = random(), high = random();
    memcpy(bytes, &low, 8), memcpy(bytes + 8, &high, 8);
    if (n % 2) bytes[0] = static_cast<std::uint8_t>(0x40 | (bytes[0] & 15));
    constexpr std::uint8_t kPrefixes[] = {0x64, 0x66, 0xf2, 0xf3};
    if (n % 4 == 0) bytes[0] = kPrefixes[n / 4 % 4];
    if (n % 8 == 0) bytes[1] = 0x0f;
    seen.look(0x555555554000 + n, bytes);
  }
  EXPECT_GT(seen.plain, 30'000u);
}

}  // namespace
}  // namespace mortise::affinity
