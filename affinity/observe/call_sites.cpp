#include "affinity/observe/call_sites.hpp"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "mortise/os/pages.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::affinity {
namespace {

constexpr std::uintptr_t kNear = std::uintptr_t{1} << 30;  // a call reaches twice as far
constexpr std::size_t kLine = 64;

const std::uint8_t* bytes_at(std::uintptr_t address) noexcept { return reinterpret_cast<const std::uint8_t*>(address); }

/// Where an instruction leads that ends right behind the four bytes of distance at `at`, and those bytes for a goal.
std::uintptr_t goal_of(const std::uint8_t* at) noexcept {
  std::int32_t distance;
  memcpy(&distance, at, sizeof distance);
  return reinterpret_cast<std::uintptr_t>(at) + sizeof distance + static_cast<std::uintptr_t>(std::intptr_t{distance});
}
std::int32_t distance_to(std::uintptr_t goal, std::uintptr_t at) noexcept { return static_cast<std::int32_t>(goal - at - 4); }

/// Whether the code at `target` is m's way to malloc: a jump through its table.
bool leads_to_malloc(const Module& m, std::uintptr_t target) noexcept {
  const Range code = code_of(m, target);
  if (!code.holds(target) || code.last - target < 16) return false;
  const std::uint8_t* at = bytes_at(target);
  constexpr std::uint8_t kLanding[] = {0xf3, 0x0f, 0x1e, 0xfa};  // endbr64
  if (memcmp(at, kLanding, sizeof kLanding) == 0) at += sizeof kLanding;
  if (*at == 0xf2) ++at;  // bnd
  if (at[0] != 0xff || at[1] != 0x25) return false;
  const char* const name = name_of_slot(m, goal_of(at + 2));
  return name && strcmp(name, "malloc") == 0;
}

/// Whether the program writes to this code itself, or may: it would lose its right to. Older kernels (before Linux 5.14) do not say.
bool is_writable(std::uintptr_t at, std::size_t bytes, std::size_t page) noexcept {
  const std::uintptr_t first = at / page * page, last = (at + bytes + page - 1) / page * page;
  return os::prefault(reinterpret_cast<std::byte*>(first), last - first);
}

/// Makes `bytes` of code writable, and runs `write`.
template <class Write> bool write_code(std::uintptr_t at, std::size_t bytes, std::size_t page, Write&& write) noexcept {
  const std::uintptr_t first = at / page * page, last = (at + bytes + page - 1) / page * page;
  const auto protect = [&](long how) { return os::syscall(SYS_mprotect, first, last - first, how) == 0; };
  if (!protect(PROT_READ | PROT_WRITE | PROT_EXEC)) return false;
  write();
  protect(PROT_READ | PROT_EXEC);
  return true;
}

}  // namespace

bool CallSites::patch(const Module& m, std::uintptr_t back, std::uint32_t pool, Entry entry) noexcept {
  constexpr std::size_t kCall = 5;
  const std::uintptr_t call = back - kCall, distance = call + 1;
  if (!m || !code_of(m, call).holds(call) || distance / kLine != (distance + 3) / kLine) return false;
  if (*bytes_at(call) != 0xe8) return false;
  if (!leads_to_malloc(m, goal_of(bytes_at(distance))) || is_writable(distance, kCall - 1, kPage)) return false;
  std::uint8_t* const stub = stub_near(m, call, entry);
  if (!stub) return false;
  const auto place = reinterpret_cast<std::uintptr_t>(stub);
  const std::int32_t to_entry = distance_to(place / kPage * kPage, place + 7), to_stub = distance_to(place, distance);
  const bool is_written = write_code(place, kStub, kPage, [&] {
    stub[0] = 0xbe;  // mov $pool, %esi
    memcpy(stub + 1, &pool, 4);
    stub[5] = 0xff, stub[6] = 0x25;  // jmp *entry(%rip)
    memcpy(stub + 7, &to_entry, 4);
  });
  auto* const word = reinterpret_cast<std::int32_t*>(distance);
  if (!is_written || !write_code(distance, sizeof *word, kPage, [&] { __atomic_store_n(word, to_stub, __ATOMIC_RELEASE); })) return false;
  ++patched_;
  return true;
}

std::uint8_t* CallSites::stub_near(const Module& m, std::uintptr_t call, Entry entry) noexcept {
  for (std::uint32_t i = 0; i < shelves_; ++i) {
    Shelf& s = shelf_[i];
    const auto place = reinterpret_cast<std::uintptr_t>(s.page);
    if ((call > place ? call - place : place - call) < kNear && s.used < kPage / kStub) return s.page + kStub * s.used++;
  }
  if (shelves_ == kShelves) return nullptr;
  constexpr std::uintptr_t kStep = 1 << 16;
  for (std::uintptr_t at = m.first / kStep * kStep; at > 2 * kStep && call - at < kNear;) {
    at -= kStep;
    const os::MapAt result = os::map_at(reinterpret_cast<std::byte*>(at), kPage);
    if (result == os::MapAt::refused) return nullptr;
    if (result == os::MapAt::taken) continue;
    auto* const page = reinterpret_cast<std::uint8_t*>(at);
    memcpy(page, &entry, sizeof entry);
    shelf_[shelves_++] = {page, 2};
    return page + kStub;
  }
  return nullptr;
}

}  // namespace mortise::affinity
