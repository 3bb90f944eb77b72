// The hit paths of three allocators twice: composed out of layers, and written by hand as one function each, as one would
// write them who had never heard of layers. Each call is single-stepped; prints NAME VERB COMPOSED FUSED, in instructions.
//
// What is the same in both: data structures, size classes, the machine code of a restartable sequence. What is by hand:
// everything between the entry and those.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <array>

#include "mortise/allocators/hslab.hpp"
#include "mortise/allocators/tlsfcc.hpp"
#include "mortise/allocators/wfslab.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/print_and_abort.hpp"

using namespace mortise;

namespace {

template <class Classes> constexpr auto table_of_classes() {
  std::array<std::uint8_t, Classes::kMaxBytes / 16 + 1> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(Classes::class_of(i * 16));
  return table;
}

}  // namespace

// -- hslab

constinit Hslab hslab{};
constinit Hslab::Thread hslab_thread{};
extern "C" void* composed_hslab_malloc(std::size_t n) { return hslab.allocate_hit(hslab_thread, {.size = n}).ptr; }
extern "C" bool composed_hslab_free(std::byte* p) { return hslab.holds(p) && hslab.release_hit(hslab_thread, hslab.block_of(p)); }

namespace fused_hslab {
using Rack = os::Rack<Hslab::Classes::kCount + 1>;
constexpr auto kClassOf = table_of_classes<Hslab::Classes>();
constinit std::size_t gate = 0, extent = 0;
constinit os::RseqArea area{};
constinit std::byte* origin = nullptr;
constinit const std::uint8_t* class_map = nullptr;
constinit std::byte* table[os::kCpusMax] = {};
}  // namespace fused_hslab
extern "C" void* fused_hslab_malloc(std::size_t n) {
  using namespace fused_hslab;
  if (n >= gate) [[unlikely]] return nullptr;
  return Rack::pop(area, table, kClassOf[(n + 15) / 16]);
}
extern "C" bool fused_hslab_free(std::byte* p) {
  using namespace fused_hslab;
  const auto at = static_cast<std::size_t>(p - origin);
  if (at >= extent) [[unlikely]] return false;
  return Rack::push(area, table, class_map[at >> 16], p);
}

// -- wfslab

constinit Wfslab wfslab{};
constinit Wfslab::Thread wfslab_thread{};
extern "C" void* composed_wfslab_malloc(std::size_t n) { return wfslab.allocate_hit(wfslab_thread, {.size = n}).ptr; }
extern "C" bool composed_wfslab_free(std::byte* p) { return wfslab.holds(p) && wfslab.release_hit(wfslab_thread, wfslab.block_of(p)); }

namespace fused_wfslab {
using Classes = Wfslab::Classes;
using Slot = WaitFreeSlot<Classes>;
constexpr auto kClassOf = table_of_classes<Classes>();
constinit Slot* slot = nullptr;
constinit std::size_t extent = 0;
constinit std::byte* origin = nullptr;
constinit const std::uint8_t* class_map = nullptr;
[[gnu::noinline]] bool send_home(unsigned, std::byte*) { abort(); }
}  // namespace fused_wfslab
extern "C" void* fused_wfslab_malloc(std::size_t n) {
  using namespace fused_wfslab;
  if (n > Classes::kMaxBytes || !slot) [[unlikely]] return nullptr;
  const unsigned c = kClassOf[(n + 15) / 16];
  Slot::Bin& bin = slot->bins[c];
  if (const std::uint32_t count = bin.count.load(Order::relaxed)) [[likely]] {
    bin.count.store(count - 1, Order::relaxed);
    return bin.slots[count - 1];
  }
  const std::uint64_t word = bin.word.load(Order::relaxed), rest = word & (word - 1);
  if (!word) [[unlikely]] return nullptr;
  bin.word.store(rest, Order::relaxed);
  if (!rest) [[unlikely]] slot->wanted.want(c);
  return bin.base + static_cast<unsigned>(std::countr_zero(word)) * Classes::size_of(c);
}
extern "C" bool fused_wfslab_free(std::byte* p) {
  using namespace fused_wfslab;
  const auto at = static_cast<std::size_t>(p - origin);
  if (at >= extent) [[unlikely]] return false;
  const unsigned c = class_map[at >> 16];
  if (!c || !slot) [[unlikely]] return false;
  Slot::Bin& bin = slot->bins[c];
  const std::uint32_t count = bin.count.load(Order::relaxed);
  if (count >= bin.limit) [[unlikely]] return send_home(c, p);
  bin.slots[count] = p;
  bin.count.store(count + 1, Order::relaxed);
  return true;
}

// -- tlsfcc: the thread has a block of the size, and room for it

constinit TlsfccHeap tlsfcc{};
constinit TlsfccHeap::Thread tlsfcc_thread{};
extern "C" void* composed_tlsfcc_malloc(std::size_t n) { return tlsfcc.allocate_hit(tlsfcc_thread, {.size = n}).ptr; }
extern "C" bool composed_tlsfcc_free(std::byte* p) { return tlsfcc.holds(p) && tlsfcc.release_hit(tlsfcc_thread, tlsfcc.block_of(p)); }

namespace fused_tlsfcc {
using Map = classes::Geometric<16, 4_KiB>;
constexpr auto kClassOf = table_of_classes<Map>();
constexpr auto kRooms = [] {  // by size in units of 16 bytes: slots, none where no class has just this size
  std::array<std::uint8_t, Map::kMaxBytes / 16 + 1> rooms{};
  for (unsigned c = 1; c <= Map::kCount; ++c)
    rooms[Map::size_of(c) / 16] = static_cast<std::uint8_t>(Map::size_of(c) > 2048 ? 1 : Map::size_of(c) > 1024 ? 2 : 4);
  return rooms;
}();
constinit std::byte* origin = nullptr;
constinit std::size_t extent = 0;
/// What one thread keeps.
struct Kept {
  bool is_open;
  std::uint8_t count[Map::kCount + 1];
  Atomic<std::byte*> slot[Map::kCount + 1][4];
  std::uint8_t waiting_count;
  Atomic<std::uint64_t> waiting[4];
};
constinit Kept kept{};
[[gnu::always_inline]] inline Chunk* checked(std::byte* p) {
  const Block b{p, 0};
  MORTISE_CHECK(address_of(p) % 16 == 0, Fault::invalid_free, b);
  Chunk* c = Chunk::of(p);
  const std::size_t tag = glance(c->tag), bytes = tag & ~std::size_t{15};
  MORTISE_CHECK(tag & Chunk::kInUse, Fault::double_free, b);
  std::byte* const next = c->start() + bytes;
  MORTISE_CHECK(bytes >= 32 && bytes <= extent && static_cast<std::size_t>(next - origin) < extent, Fault::header_overwritten, b);
  MORTISE_CHECK(reinterpret_cast<Chunk*>(next)->is_previous_in_use(), Fault::header_overwritten, b);
  return c;
}
}  // namespace fused_tlsfcc
extern "C" void* fused_tlsfcc_malloc(std::size_t n) {
  using namespace fused_tlsfcc;
  if (n > Map::kMaxBytes - 8) [[unlikely]] return nullptr;
  const unsigned c = kClassOf[((n < 24 ? 24 : n) + 8 + 15) / 16];  // no chunk is smaller than 32 bytes
  const unsigned have = kept.count[c];
  if (have == 0) [[unlikely]] return nullptr;
  kept.count[c] = static_cast<std::uint8_t>(have - 1);
  return kept.slot[c][have - 1].exchange(nullptr, Order::relaxed);
}
extern "C" bool fused_tlsfcc_free(std::byte* p) {
  using namespace fused_tlsfcc;
  if (static_cast<std::size_t>(p - origin) >= extent) [[unlikely]] return false;
  const std::size_t bytes = checked(p)->size();
  if (bytes > Map::kMaxBytes || !kept.is_open) [[unlikely]] return false;
  const unsigned c = kClassOf[(bytes + 15) / 16];
  const unsigned have = kept.count[c];
  if (have && kept.slot[c][have - 1].load(Order::relaxed) == p) [[unlikely]] return false;  // freed twice
  if (have >= kRooms[bytes / 16]) [[unlikely]] {
    const unsigned waiting = kept.waiting_count;
    if (waiting == 3) [[unlikely]] return false;
    kept.waiting[waiting].store(address_of(p) | std::uint64_t{bytes / 16 - 1} << 56, Order::release);
    kept.waiting_count = static_cast<std::uint8_t>(waiting + 1);
    return true;
  }
  kept.slot[c][have].store(p, Order::release);
  kept.count[c] = static_cast<std::uint8_t>(have + 1);
  return true;
}

// -- counting: a trap after each instruction of a call

namespace {

volatile long steps_taken = 0;
void on_step(int) { steps_taken = steps_taken + 1; }

/// `function(argument)` with a trap after every instruction. The few of this function itself are the same for every call.
[[gnu::noinline]] std::uintptr_t stepped(void* function, std::uintptr_t argument) {
  std::uintptr_t result;
  asm volatile(
      "movq %%rsp, %%rbx\n andq $-16, %%rsp\n"
      "pushfq\n orq $0x100, (%%rsp)\n popfq\n"
      "call *%[function]\n"
      "pushfq\n andq $~0x100, (%%rsp)\n popfq\n"
      "movq %%rbx, %%rsp\n"
      : "=a"(result), "+D"(argument)
      : [function] "r"(function)
      : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3");
  return result;
}
[[gnu::noinline]] void* nothing(std::uintptr_t) {
  asm volatile("");
  return nullptr;
}

template <class F> std::uintptr_t counted(F* function, std::uintptr_t argument, long& count) {
  const auto go = [&](void* f) {
    steps_taken = 0;
    const std::uintptr_t result = stepped(f, argument);
    count = steps_taken - count;
    return result;
  };
  count = 0;
  go(reinterpret_cast<void*>(nothing));  // what the harness takes, and one `ret` more than nothing
  const long harness = count;
  count = harness - 1;
  return go(reinterpret_cast<void*>(function));
}

/// Takes and gives back blocks by both ways until both are warm, then counts; false when a call was no hit.
template <class Get, class Put> bool compare(const char* name, Get* composed_get, Put* composed_put, Get* fused_get, Put* fused_put,
                                             std::size_t bytes) {
  long counts[4] = {};
  for (int warm = 0; warm < 4; ++warm) {
    auto* p = reinterpret_cast<std::byte*>(counted(composed_get, bytes, counts[0]));
    if (!p || !(counted(composed_put, address_of(p), counts[2]) & 1)) return false;
    p = reinterpret_cast<std::byte*>(counted(fused_get, bytes, counts[1]));
    if (!p || !(counted(fused_put, address_of(p), counts[3]) & 1)) return false;
  }
  printf("%s malloc %ld %ld\n%s free %ld %ld\n", name, counts[0], counts[1], name, counts[2], counts[3]);
  return true;
}

constexpr std::size_t kBytes = 48;
alignas(4096) std::byte memory[1 << 20];
alignas(fused_hslab::Rack::kAlign) fused_hslab::Rack rack;
std::byte* slots[16];
constinit std::uint8_t class_map[16] = {};
alignas(64) std::byte own_slot[sizeof(fused_wfslab::Slot)];

template <class H> bool start(H& heap, typename H::Thread& thread, const os::Facts& facts) {
  if (!start_below(heap, facts)) return false;
  attach_below(heap, thread);
  Block blocks[8];
  for (Block& b : blocks)
    if (!(b = heap.allocate(thread, {.size = kBytes}))) return false;
  heap.release(thread, blocks[4]);  // between two that stay
  return true;
}

bool start_fused_hslab(const os::Facts& facts) {
  using namespace fused_hslab;
  const unsigned c = kClassOf[(kBytes + 15) / 16];
  area = facts.rseq;
  for (auto& set : table) set = reinterpret_cast<std::byte*>(&rack);
  rack.place(c, slots);
  rack.set_limit(c, 16);
  slots[0] = memory;
  rack.set_count(c, 1);
  class_map[0] = static_cast<std::uint8_t>(c);
  origin = memory, extent = sizeof memory, fused_hslab::class_map = ::class_map, gate = Hslab::Classes::kMaxBytes + 1;
  return true;
}
bool start_fused_wfslab() {
  using namespace fused_wfslab;
  slot = ::new (own_slot) Slot{};
  slot->open(0);
  const unsigned c = kClassOf[(kBytes + 15) / 16];
  slot->begin(c);
  slot->bins[c].slots[0] = memory;
  slot->bins[c].count.store(1, Order::relaxed);
  origin = memory, extent = sizeof memory, fused_wfslab::class_map = ::class_map;
  ::class_map[0] = static_cast<std::uint8_t>(c);
  return true;
}
/// Three chunks in use, of which the second is this thread's to give back.
bool start_fused_tlsfcc() {
  using namespace fused_tlsfcc;
  origin = memory, extent = sizeof memory - 64;
  std::byte* at = memory + 8;
  const auto chunk = [&](std::size_t bytes) {
    auto* c = reinterpret_cast<Chunk*>(at);
    c->tag = bytes | Chunk::kInUse | Chunk::kPreviousInUse;
    at += bytes;
    return c;
  };
  chunk(64);
  Chunk* middle = chunk(64);
  chunk(extent - 256);
  chunk(0);
  kept.is_open = true;
  return fused_tlsfcc_free(middle->bytes());
}

}  // namespace

int main() {
  struct sigaction action {};
  action.sa_handler = on_step;
  sigaction(SIGTRAP, &action, nullptr);
  static thread_local os::OwnArea area{};
  os::Facts facts = os::read_facts(&area);
  facts.rseq = {};  // the thread's own area: a restartable sequence would be restarted by every trap
  facts.rseq.offset = reinterpret_cast<std::byte*>(&area) - static_cast<std::byte*>(__builtin_thread_pointer());
  facts.rseq.index_at = facts.rseq.offset;
  facts.can_restart = false;
  if (!start(hslab, hslab_thread, facts) || !start_fused_hslab(facts)) return 2;
  if (!compare("hslab", composed_hslab_malloc, composed_hslab_free, fused_hslab_malloc, fused_hslab_free, kBytes)) return 3;
  if (!start(wfslab, wfslab_thread, facts) || !start_fused_wfslab()) return 4;
  if (!compare("wfslab", composed_wfslab_malloc, composed_wfslab_free, fused_wfslab_malloc, fused_wfslab_free, kBytes)) return 5;
  if (!start(tlsfcc, tlsfcc_thread, facts) || !start_fused_tlsfcc()) return 6;
  if (!compare("tlsfcc", composed_tlsfcc_malloc, composed_tlsfcc_free, fused_tlsfcc_malloc, fused_tlsfcc_free, kBytes)) return 7;
}
