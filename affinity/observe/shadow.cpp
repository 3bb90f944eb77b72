#include "affinity/observe/shadow.hpp"

#include <dlfcn.h>
#include <sys/single_threaded.h>
#include <sys/uio.h>

#include "affinity/seam.hpp"
#include "mortise/os/syscall.hpp"

namespace mortise::abi {
[[gnu::weak, gnu::visibility("hidden")]] bool idle_thread_runs() noexcept;  // libc does not count it, and it unmaps (abi/idle.cpp)
}

namespace mortise::affinity {
namespace {

// The kernel copies the signal set before it looks at the operation, which is none: EINVAL says that the page is there.
bool is_readable(std::uintptr_t address) {
  constexpr long kNoSuchOperation = -1, kEinval = -22;
  return os::syscall(SYS_rt_sigprocmask, kNoSuchOperation, address, 0L, 8L) == kEinval;
}

bool is_of_module(std::uintptr_t address) {
  dl_find_object found;
  return _dl_find_object(reinterpret_cast<void*>(address), &found) == 0;
}

}  // namespace

void ForeignMemory::begin(std::uintptr_t stack) noexcept {
  for (Seen& s : seen_) s = {};
  stack_ = stack;
  alone_ = __libc_single_threaded != 0 && !(abi::idle_thread_runs && abi::idle_thread_runs());
}

const std::byte* ForeignMemory::ask_for(std::uintptr_t number) noexcept {
  Seen& s = seen_[number % kPages];
  s.number = number;
  s.bytes = nullptr;
  const std::uintptr_t address = number * kPageBytes;
  const auto in_place = reinterpret_cast<const std::byte*>(address);
  if (number == 0 || address >> 47 || is_shut_in.load(Order::relaxed)) return nullptr;
  const bool stays = alone_ || number == stack_ / kPageBytes;  // where the stack ends nobody knows: it may be a coroutine's
  if (stays) {
    if (is_readable(address)) s.bytes = in_place;
    return s.bytes;
  }
  std::byte* const copy = copies_[number % kPages];
  const iovec local{copy, kPageBytes}, remote{reinterpret_cast<void*>(address), kPageBytes};
  const long got = os::syscall(SYS_process_vm_readv, os::syscall(SYS_getpid), &local, 1L, &remote, 1L, 0L);
  if (got == static_cast<long>(kPageBytes)) s.bytes = copy;
  constexpr long kEperm = -1, kEnosys = -38;
  if ((got == kEperm || got == kEnosys) && is_of_module(address) && is_readable(address)) s.bytes = in_place;
  return s.bytes;
}

void ShadowMemory::begin(std::uintptr_t stack) noexcept {
  for (; count_; --count_) slots_[words_[count_].slot] = 0;
  real_.begin(stack);
}

const ShadowMemory::Word* ShadowMemory::find(std::uintptr_t at) const noexcept {
  for (unsigned i = slot_of(at); slots_[i]; i = (i + 1) % kSlots)
    if (words_[slots_[i]].at == at) return &words_[slots_[i]];
  return nullptr;
}

ShadowMemory::Word* ShadowMemory::claim(std::uintptr_t at) noexcept {
  unsigned i = slot_of(at);
  for (; slots_[i]; i = (i + 1) % kSlots)
    if (words_[slots_[i]].at == at) return &words_[slots_[i]];
  if (count_ >= kWrites) return nullptr;
  slots_[i] = static_cast<std::uint16_t>(++count_);
  words_[count_] = {at, 0, static_cast<std::uint16_t>(i), 0, 0, false};
  return &words_[count_];
}

Value ShadowMemory::load(std::uintptr_t address, unsigned bytes, bool& readable) noexcept {
  if (const Word* const w = (address & 7) + bytes <= 8 ? find(address & ~std::uintptr_t{7}) : nullptr; (address & 7) + bytes <= 8) {
    const auto mask = static_cast<std::uint8_t>(((1u << bytes) - 1) << (address & 7));
    const std::uint64_t low = bytes == 8 ? ~0ull : (1ull << (8 * bytes)) - 1;
    if (!w || !(w->written & mask)) {  // all of it is the program's
      const std::byte* const from = real_.in_page(address & ~std::uintptr_t{7}, 8);
      if (!from) return readable = false, Value{};
      std::uint64_t bits;
      __builtin_memcpy(&bits, from, sizeof bits);
      return Value::of(bits >> 8 * (address & 7) & low);
    }
    if ((w->written & w->known & mask) == mask) return {w->bits >> 8 * (address & 7) & low, true, bytes == 8 && w->derived};
  }
  Value value{0, true, false};
  for (unsigned done = 0; done < bytes;) {
    const std::uintptr_t at = (address + done) & ~std::uintptr_t{7};
    const unsigned from = (address + done) & 7, here = bytes - done < 8 - from ? bytes - done : 8 - from;
    const auto mask = static_cast<std::uint8_t>(((1u << here) - 1) << from);
    const Word* const w = find(at);
    std::uint64_t bits = 0;
    if (!w || (w->written & mask) != mask) {
      if (!real_.read(address + done, reinterpret_cast<std::byte*>(&bits) + from, here)) {
        readable = false;
        return {};
      }
    }
    if (w && (w->written & mask)) {
      for (unsigned i = from; i < from + here; ++i) {
        if (!(w->written >> i & 1)) continue;
        bits = (bits & ~(0xffull << (8 * i))) | (w->bits & (0xffull << (8 * i)));
      }
      if ((w->known & w->written & mask) != (w->written & mask)) value.known = false;
      if (here == 8) value.derived = w->derived;
    }
    value.bits |= (bits >> (8 * from) & (here == 8 ? ~0ull : (1ull << (8 * here)) - 1)) << (8 * done);
    done += here;
  }
  if (!value.known) return {};
  return value;
}

bool ShadowMemory::store_part(std::uintptr_t at, unsigned from, unsigned bytes, std::uint64_t bits, bool known,
                              bool derived) noexcept {
  Word* const w = claim(at);
  if (!w) return false;
  const auto mask = static_cast<std::uint8_t>(((1u << bytes) - 1) << from);
  const std::uint64_t wide = bytes == 8 ? ~0ull : ((1ull << (8 * bytes)) - 1) << (8 * from);
  w->bits = (w->bits & ~wide) | (bits << (8 * from) & wide);
  w->written |= mask;
  w->known = static_cast<std::uint8_t>(known ? w->known | mask : w->known & ~mask);
  w->derived = derived && bytes == 8;
  return true;
}

bool ShadowMemory::store(std::uintptr_t address, unsigned bytes, Value value) noexcept {
  for (unsigned done = 0; done < bytes;) {
    const std::uintptr_t at = (address + done) & ~std::uintptr_t{7};
    const unsigned from = (address + done) & 7, here = bytes - done < 8 - from ? bytes - done : 8 - from;
    if (!store_part(at, from, here, value.bits >> (8 * done), value.known, value.derived)) return false;
    done += here;
  }
  return true;
}

bool ShadowMemory::holds_derived(std::uintptr_t address) const noexcept {
  const Word* const w = find(address);
  return w && w->derived;
}

}  // namespace mortise::affinity
