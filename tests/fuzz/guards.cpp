// libFuzzer drives guarded stacks with honest operations and with crimes. If this failed, an honest program would be accused, a crime
// would be called something else than it is, or a crime would damage the heap itself.
//
// The input's first byte chooses the stack, each further group of four an operation. A crime is committed only where the stack
// promises to see it, on a block that is known; the heap goes on afterwards (OnFault) and must stay sound.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "mortise/allocators/hslab_hardened.hpp"
#include "mortise/allocators/hslabd.hpp"
#include "mortise/allocators/tlsfccsd.hpp"
#include "mortise/guard/delayed_free.hpp"
#include "mortise/guard/zero_on_free.hpp"
#include "tests/support/stage.hpp"

namespace {
std::optional<mortise::Crime> told;
}

namespace mortise {
void tell(const Crime& crime) noexcept { told = crime; }
bool goes_on_after(const Crime& crime) noexcept {
  if (!told) told = crime;  // what follows from it is no news
  return true;
}
[[noreturn]] void report(Fault fault, Block block) noexcept {
  std::fprintf(stderr, "the heap itself was damaged: %s at %p\n", name_of(fault), static_cast<void*>(block.ptr));
  std::abort();
}
}  // namespace mortise

using namespace mortise;

namespace {

using HslabsLayers = Join<Layers<TailChecksum<>>, HslabLayers>;
using HslabzLayers = Join<Layers<HeaderMagic<>, ZeroOnFree<>, DelayedFree<8_KiB>>, HslabOver<BlockMarks<2>, MmapHeap<>>>;

/// What a stack promises to see.
struct Promises {
  bool frees, tails, writes_after_free;
};

void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s%s%s\n", what, told ? "; told: " : "", told ? name_of(told->fault) : "");
  std::abort();
}

template <class List, Promises kPromises> class Driver {
  using H = Stack<List>;
  struct Held {
    Block block;
    unsigned char fill;
  };

 public:
  void run(const std::uint8_t* data, std::size_t size) {
    for (; size >= 4; data += 4, size -= 4) step(data[0], data[1] | data[2] << 8, data[3]);
    while (!held_.empty()) free_honestly(take(0));
    stage_.as(0, [](H& h, auto& t) { trim_below(h, t); });
    if constexpr (Audits<H>) stage_.heap().audit();
    demand(!told, "an honest program was accused");
  }

 private:
  void step(unsigned what, std::size_t n, unsigned which) {
    switch (what % 16) {
      case 0: case 1: case 2: case 3: case 4: return allocate(n % 2000, 16, false);
      case 5: return allocate(n * 8, 16, false);
      case 6: return allocate(n % 5000, std::size_t{16} << which % 8, which & 64);
      case 7: case 8: case 9: case 10:
        if (!held_.empty()) free_honestly(take(which));
        return;
      case 11: return resize(which, n);
      case 12: return free_twice(which);
      case 13: return free_inside(which, n);
      case 14: return overflow(which, n);
      case 15: return write_after_free(which, n);
    }
  }

  void allocate(std::size_t n, std::size_t align, bool zeroed) {
    const Block b = stage_.as(0, [&](H& h, auto& t) {
      const Request r{.size = n, .align = align, .zeroed = zeroed};
      if constexpr (Hits<H>)
        if (const Block hit = h.allocate_hit(t, r)) return hit;
      return h.allocate(t, r);
    });
    demand(!told, "an honest allocation was accused");
    if (!b) return;
    demand(b.size >= n && is_aligned(b.ptr, align), "a block is not as it was asked for");
    if (zeroed)
      for (std::size_t i = 0; i < n; ++i) demand(b.ptr[i] == std::byte{0}, "zeroed memory is not");
    hold(b);
  }
  void hold(Block b) {
    fill_ = static_cast<unsigned char>(fill_ * 5 + 3) | 1;
    std::memset(b.ptr, fill_, b.size);
    held_.push_back({b, fill_});
  }
  Held take(unsigned which) {
    const std::size_t i = which % held_.size();
    const Held h = held_[i];
    held_[i] = held_.back();
    held_.pop_back();
    for (std::size_t k = 0; k < h.block.size; ++k) demand(h.block.ptr[k] == std::byte{h.fill}, "a live block's bytes changed");
    return h;
  }
  void release(std::byte* p) {
    stage_.as(0, [&](H& h, auto& t) {
      demand(h.holds(p), "a live block is not known");
      const Block b = h.block_of(p);
      if constexpr (Hits<H>)
        if (b.size_class != kNoClass && h.release_hit(t, b)) return;
      h.release(t, b);
    });
  }
  void free_honestly(Held h) {
    release(h.block.ptr);
    demand(!told, "an honest release was accused");
  }
  void resize(unsigned which, std::size_t n) {
    if (held_.empty()) return;
    const Held h = take(which);
    const Block b = stage_.as(0, [&](H& heap, auto& t) { return resize_below(heap, t, heap.measure(heap.block_of(h.block.ptr)), n); });
    demand(!told, "an honest resize was accused");
    const std::size_t kept = b ? (b.size < h.block.size ? b.size : h.block.size) : 0;
    for (std::size_t i = 0; i < kept; ++i) demand(b.ptr[i] == std::byte{h.fill}, "resizing changed bytes");
    if (b) hold(b);
    else held_.push_back(h);
  }

  void expect(Fault fault, const char* what) {
    demand(told && told->fault == fault, what);
    told.reset();
  }
  void free_twice(unsigned which) {
    if (!kPromises.frees || held_.empty()) return;
    const Held h = take(which);
    free_honestly(h);
    release(h.block.ptr);
    // Where the block was its slab's last, or a large one, nothing may be known of it any more.
    const bool is_gone = stage_.heap().block_of(h.block.ptr).size_class == kNoClass;
    const bool is_named = told && (told->fault == Fault::double_free || (is_gone && told->fault == Fault::invalid_free));
    demand(is_named, "a double free was not called one");
    told.reset();
  }
  void free_inside(unsigned which, std::size_t n) {
    if (!kPromises.frees || held_.empty()) return;
    const Held& h = held_[which % held_.size()];
    const std::size_t at = 1 + n % h.block.size;
    if (at >= h.block.size) return;
    release(h.block.ptr + at);
    // Where a block lay before and was released, its mark is still there: it is called a double free, of what is there no more.
    demand(told && (told->fault == Fault::invalid_free || told->fault == Fault::double_free), "a free inside a block was not noticed");
    told.reset();
  }
  /// A sampled block, alone between pages without access: crimes against it end the program, as they shall.
  bool is_alone(Held h) {
    Crime crime;
    if constexpr (Explains<H>) return stage_.heap().explain(h.block.ptr, crime);
    else return false;
  }
  void overflow(unsigned which, std::size_t n) {
    if (!kPromises.tails || held_.empty()) return;
    const Held h = take(which);
    if (is_alone(h)) return free_honestly(h);
    h.block.ptr[h.block.size + n % 7] ^= static_cast<std::byte>(1 + (n >> 8) % 255);
    release(h.block.ptr);
    expect(Fault::tail_overwritten, "a write past the end was not called one");
  }
  void write_after_free(unsigned which, std::size_t n) {
    if (!kPromises.writes_after_free || held_.empty()) return;
    const Held h = take(which);
    if (h.block.size > 4000 || is_alone(h)) return free_honestly(h);  // too large to stay
    free_honestly(h);
    h.block.ptr[n % std::min<std::size_t>(h.block.size, fills::ZeroedStart<>::kStart)] = std::byte{0x41};
    stage_.as(0, [](H& heap, auto& t) { trim_below(heap, t); });
    if (!told)  // seen when the block is given out again
      for (unsigned i = 0; i < 4000 && !told; ++i)
        stage_.as(0, [&](H& heap, auto& t) { spare_.push_back(heap.allocate(t, {.size = h.block.size})); });
    const auto found = told;
    told.reset();
    for (const Block b : spare_)
      if (b) release(b.ptr);
    spare_.clear();
    told = found;
    expect(Fault::write_after_free, "a write after free was not called one");
  }

  test::Stage<H> stage_;
  std::vector<Held> held_;
  std::vector<Block> spare_;
  unsigned char fill_ = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  static Driver<HslabdLayers, Promises{.frees = true, .tails = false, .writes_after_free = false}> hslabd;
  static Driver<HslabsLayers, Promises{.frees = false, .tails = true, .writes_after_free = false}> hslabs;
  static Driver<TlsfccsdLayers, Promises{.frees = true, .tails = true, .writes_after_free = false}> tlsfccsd;
  static Driver<HslabHardenedLayers, Promises{.frees = true, .tails = true, .writes_after_free = true}> hardened;
  static Driver<HslabzLayers, Promises{.frees = true, .tails = false, .writes_after_free = false}> zeroing;
  told.reset();
  switch (data[0] % 5) {
    case 0: hslabd.run(data + 1, size - 1); break;
    case 1: hslabs.run(data + 1, size - 1); break;
    case 2: tlsfccsd.run(data + 1, size - 1); break;
    case 3: hardened.run(data + 1, size - 1); break;
    case 4: zeroing.run(data + 1, size - 1); break;
  }
  return 0;
}
