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
  return os::magazine_pop(area, table, std::size_t{kClassOf[(n + 15) / 16]} * sizeof(os::Magazine));
}
extern "C" bool fused_hslab_free(std::byte* p) {
  using namespace fused_hslab;
  const auto at = static_cast<std::size_t>(p - origin);
  if (at >= extent) [[unlikely]] return false;
  return os::magazine_push(area, table, std::size_t{class_map[at >> 16]} * sizeof(os::Magazine), p);
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
  const std::uint64_t word = bin.word.load(Order::relaxed);
  if (!word) [[unlikely]] return nullptr;
  bin.word.store(word & (word - 1), Order::relaxed);
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

// -- tlsfcc: nobody else is there, a chunk of the size is in its list, and its neighbours are in use

constinit TlsfccHeap tlsfcc{};
constinit TlsfccHeap::Thread tlsfcc_thread{};
extern "C" void* composed_tlsfcc_malloc(std::size_t n) { return tlsfcc.allocate(tlsfcc_thread, {.size = n}).ptr; }
extern "C" bool composed_tlsfcc_free(std::byte* p) {
  if (!tlsfcc.holds(p)) return false;
  tlsfcc.release(tlsfcc_thread, tlsfcc.measure(tlsfcc.block_of(p)));
  return true;
}

namespace fused_tlsfcc {
struct Node {  // what a thread asks of whoever holds the lock
  Atomic<Node*> next{nullptr};
  Atomic<std::uint32_t> state{0};
  void (*call)(void*) noexcept = nullptr;
  void* work = nullptr;
};
constinit Atomic<Node*> tail{nullptr};
constinit std::uint64_t levels = 0;
constinit std::uint16_t steps[36] = {};
constinit Chunk* lists[36][16] = {};
constinit std::byte* origin = nullptr;
constinit std::size_t extent = 0, live = 0;
[[noreturn, gnu::noinline, gnu::cold]] void not_a_hit() { abort(); }

struct Place {
  unsigned level, step;
};
[[gnu::always_inline]] inline Place place_of(std::size_t size) {
  if (size < 256) return {0, static_cast<unsigned>(size >> 4)};
  const unsigned top = log2_floor(size);
  return {top - 7, static_cast<unsigned>(size >> (top - 4)) & 15};
}
[[gnu::always_inline]] inline void insert(Chunk* c) {
  const Place p = place_of(c->size());
  Chunk*& first = lists[p.level][p.step];
  c->left = nullptr;
  c->right = first;
  if (first) first->left = c;
  first = c;
  steps[p.level] |= static_cast<std::uint16_t>(1u << p.step);
  levels |= std::uint64_t{1} << p.level;
}
[[gnu::always_inline]] inline void remove(Chunk* c) {
  const Place p = place_of(c->size());
  if (c->right) c->right->left = c->left;
  if (c->left) {
    c->left->right = c->right;
    return;
  }
  lists[p.level][p.step] = c->right;
  if (c->right) return;
  steps[p.level] &= static_cast<std::uint16_t>(~(1u << p.step));
  if (!steps[p.level]) levels &= ~(std::uint64_t{1} << p.level);
}
[[gnu::always_inline]] inline Chunk* find(std::size_t bytes) {
  const Place p = place_of(bytes < 256 ? bytes : bytes + (std::size_t{1} << (log2_floor(bytes) - 4)) - 1);
  if (p.level >= 36) return nullptr;
  if (const unsigned here = steps[p.level] & (~0u << p.step)) return lists[p.level][std::countr_zero(here)];
  const std::uint64_t above = p.level + 1 < 64 ? levels & (~std::uint64_t{0} << (p.level + 1)) : 0;
  if (!above) return nullptr;
  const auto level = static_cast<unsigned>(std::countr_zero(above));
  return lists[level][std::countr_zero(unsigned{steps[level]})];
}
[[gnu::always_inline]] inline void leave(Node& here) {
  if (here.next.load(Order::acquire)) not_a_hit();
  Node* last = &here;
  if (!tail.compare_exchange_strong(last, nullptr, Order::acq_rel)) not_a_hit();
}
inline Chunk* checked(std::byte* p) {
  const auto inside = [](const void* at) { return static_cast<std::size_t>(static_cast<const std::byte*>(at) - origin) < extent; };
  if (address_of(p) % 16) not_a_hit();
  Chunk* c = Chunk::of(p);
  if (!c->is_in_use() || c->size() < 32 || c->size() > extent || !inside(c->next()) || !c->next()->is_previous_in_use()) not_a_hit();
  return c;
}

/// A request as it waits in the queue: whoever holds the lock serves it by these words.
struct Allocation {
  std::size_t need;
  Chunk* found;
};
void serve(void* work) noexcept {
  auto& asked = *static_cast<Allocation*>(work);
  Chunk* c = find(asked.need);
  if (!c) not_a_hit();
  remove(c);
  if (c->size() >= asked.need + 32) {
    auto* rest = reinterpret_cast<Chunk*>(c->start() + asked.need);
    rest->tag = (c->size() - asked.need) | Chunk::kPreviousInUse;
    c->tag = asked.need | (c->tag & Chunk::kBits);
    rest->set_footer();
    insert(rest);
    c->tag |= Chunk::kInUse;
  } else {
    c->tag |= Chunk::kInUse;
    c->next()->tag |= Chunk::kPreviousInUse;
  }
  live += c->size();
  asked.found = c;
}
void serve_release(void* work) noexcept {
  Chunk* c = checked(static_cast<std::byte*>(work));
  live -= c->size();
  Chunk* after = c->next();
  if (!after->is_in_use()) {
    remove(after);
    c->tag = (c->size() + after->size()) | (c->tag & Chunk::kBits);
  }
  if (!c->is_previous_in_use()) {
    Chunk* before = c->previous();
    remove(before);
    before->tag = (before->size() + c->size()) | (before->tag & Chunk::kBits);
    c = before;
  }
  c->tag &= ~Chunk::kInUse;
  c->set_footer();
  c->next()->tag &= ~Chunk::kPreviousInUse;
  insert(c);
}
[[gnu::always_inline]] inline void enter(Node& here) {
  if (tail.exchange(&here, Order::acq_rel)) not_a_hit();
}
}  // namespace fused_tlsfcc
extern "C" void* fused_tlsfcc_malloc(std::size_t n) {
  using namespace fused_tlsfcc;
  if (n > MmapHeap<>::kReach) return nullptr;
  Allocation asked{round_up(n + 8, 16), nullptr};
  if (asked.need < 32) asked.need = 32;
  Node here;
  here.call = serve;
  here.work = &asked;
  enter(here);
  serve(&asked);
  leave(here);
  return asked.found ? asked.found->bytes() : nullptr;
}
extern "C" bool fused_tlsfcc_free(std::byte* p) {
  using namespace fused_tlsfcc;
  if (static_cast<std::size_t>(p - origin) >= extent) return false;
  checked(p);
  Node here;
  here.call = serve_release;
  here.work = p;
  enter(here);
  serve_release(p);
  leave(here);
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
alignas(1024) os::Magazine magazines[Hslab::Classes::kCount + 1];
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
  for (auto& set : table) set = reinterpret_cast<std::byte*>(magazines);
  magazines[c].set_limit(16);
  magazines[c].slot[0] = memory;
  magazines[c].set_count(1);
  class_map[0] = static_cast<std::uint8_t>(c);
  origin = memory, extent = sizeof memory, fused_hslab::class_map = ::class_map, gate = Hslab::Classes::kMaxBytes + 1;
  return true;
}
bool start_fused_wfslab() {
  using namespace fused_wfslab;
  slot = ::new (own_slot) Slot{};
  slot->open(0);
  const unsigned c = kClassOf[(kBytes + 15) / 16];
  slot->bins[c].slots[0] = memory;
  slot->bins[c].count.store(1, Order::relaxed);
  origin = memory, extent = sizeof memory, fused_wfslab::class_map = ::class_map;
  ::class_map[0] = static_cast<std::uint8_t>(c);
  return true;
}
/// Three chunks in use, of which the second is freed, then memory to the end.
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
  serve_release(middle->bytes());
  return true;
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
