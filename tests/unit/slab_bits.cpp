// If this failed, a slab would hand out a block twice, lose one, not hand out the lowest first, or let a second or a wrong free pass
// because of where in a batch it stands.
#include "mortise/backbone/slab_bits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "mortise/policy/size_classes.hpp"

namespace mortise::test {
namespace {

using Classes = classes::Geometric<8>;
struct Index {
  static constexpr std::size_t kGranule = 64_KiB;
  static std::size_t bytes_of(const Span* s) noexcept { return s->granules * kGranule; }
};
using Bits = SlabBits<Classes, Index>;
using Geometry = Bits::Geometry;

/// A span of class `c` whose blocks have all been handed out. Its memory is never touched, so any address will do.
struct Model {
  Span span{};
  std::vector<std::uint64_t> words;
  std::byte* base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  unsigned c;
  std::size_t size;
  std::set<unsigned> released;

  explicit Model(unsigned of) : c(of), size(Classes::size_of(of)) {
    span.granules = static_cast<std::uint32_t>(Geometry::span_bytes(c) / Index::kGranule);
    span.capacity = span.bump = Geometry::capacity(c);
    span.size_class = static_cast<std::uint8_t>(c);
    words.resize(span.granules * (Index::kGranule / kMinAlign / 64));
  }
  std::byte* block(unsigned i) { return base + i * size; }
  unsigned give(std::vector<std::byte*>& batch) {
    return Bits::give(&span, Geometry::cut_of(c), base, batch.data(), batch.data() + batch.size(), words.data());
  }
};

TEST(SlabBits, TakesTheLowestAndGivesInAnyOrder) {
  std::mt19937 random(7);
  for (unsigned c = 1; c <= Classes::kCount; ++c) {
    Model m(c);
    std::vector<unsigned> out;  // what the program has
    for (unsigned i = 0; i < m.span.capacity; ++i) out.push_back(i);
    for (unsigned round = 0; round < 60; ++round) {
      if (const unsigned order = random() % 3; order == 0) std::shuffle(out.begin(), out.end(), random);
      else if (order == 1) std::sort(out.begin(), out.end());
      std::vector<std::byte*> batch;
      for (unsigned n = random() % 150; n && !out.empty(); --n, out.pop_back()) {
        batch.push_back(m.block(out.back()));
        m.released.insert(out.back());
      }
      if (!batch.empty()) {
        batch.push_back(m.base + m.span.granules * Index::kGranule + 64 * (random() % 3));  // a neighbour's: stays behind
        ASSERT_EQ(m.give(batch), batch.size() - 1);
      }
      if (m.released.empty()) continue;
      std::vector<std::byte*> taken(1 + random() % std::min<std::size_t>(m.released.size(), 150));
      ASSERT_EQ(Bits::take(&m.span, m.base, m.size, taken.data(), static_cast<unsigned>(taken.size()), m.words.data()), taken.size());
      for (std::byte* p : taken) {
        ASSERT_EQ(p, m.block(*m.released.begin())) << "the lowest first, of class " << c;
        out.push_back(*m.released.begin());
        m.released.erase(m.released.begin());
      }
    }
    for (unsigned i = 0; i < m.span.capacity; ++i) ASSERT_EQ(m.words[i / 64] >> (i % 64) & 1, m.released.count(i));
  }
}

TEST(SlabBits, WrongFreesAreSeenWhereverInABatchTheyStand) {
  constexpr unsigned c = 4;
  Model whole(c);
  const std::vector<std::byte*> honest = {whole.block(70), whole.block(71), whole.block(3), whole.block(72), whole.block(200)};
  for (std::size_t at = 1; at <= honest.size(); ++at) {
    for (std::byte* wrong : {whole.block(70), whole.block(70) + 16, whole.block(3) + 8, whole.block(whole.span.capacity - 1)}) {
      Model m(c);
      m.span.bump = m.span.capacity - 1;  // the last one was never handed out
      std::vector<std::byte*> batch = honest;
      batch.insert(batch.begin() + static_cast<std::ptrdiff_t>(at), wrong);
      EXPECT_DEATH(m.give(batch), wrong == whole.block(70) ? "fault=double_free" : "fault=invalid_free");
    }
  }
}

}  // namespace
}  // namespace mortise::test
