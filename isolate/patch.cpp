// patch.cpp: writes `jmp [rip+0]; .quad target` (14 bytes, no register changed) over function entries.
#include "patch.hpp"

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "raw.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kJump = 14;
constexpr std::size_t kEntriesMax = 160;

/// Room for the jump: the function itself is long enough, or the padding up to the next 16-byte boundary is.
bool fits(void* entry) noexcept {
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (!dladdr1(entry, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) || !symbol) return false;
  const auto start = reinterpret_cast<std::uintptr_t>(entry);
  return symbol->st_size >= kJump || (start % 16 == 0 && symbol->st_size > 0);
}

bool write_jump(void* entry, void* target) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(entry);
  const std::uintptr_t low = page_floor(start), high = page_ceil(start + kJump);
  const long bytes = static_cast<long>(high - low);
  if (failed(raw_syscall(SYS_mprotect, static_cast<long>(low), bytes, PROT_READ | PROT_WRITE | PROT_EXEC)))
    return false;
  const unsigned char jump[6] = {0xff, 0x25, 0, 0, 0, 0};
  std::memcpy(entry, jump, sizeof jump);
  std::memcpy(static_cast<char*>(entry) + sizeof jump, &target, sizeof target);
  return !failed(raw_syscall(SYS_mprotect, static_cast<long>(low), bytes, PROT_READ | PROT_EXEC));
}

/// The function of libc proper, not another library's of the same name that was preloaded beside us.
void* find(const Replacement& r) noexcept {
  static void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (!libc) return nullptr;
  return r.version ? dlvsym(libc, r.symbol, r.version) : dlsym(libc, r.symbol);
}

}  // namespace

bool can_replace(const Replacement* list, std::size_t count, const char*& culprit) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    culprit = list[i].symbol;
    void* entry = find(list[i]);
    if (entry ? !fits(entry) : list[i].required) return false;
  }
  return true;
}

bool replace_all(const Replacement* list, std::size_t count, const char*& culprit) noexcept {
  void* entries[kEntriesMax] = {};  // looked up before the first is written: the loader calls some of them itself
  for (std::size_t i = 0; i < count && i < kEntriesMax; ++i) entries[i] = find(list[i]);
  for (std::size_t i = 0; i < count; ++i) {
    culprit = list[i].symbol;
    if (i >= kEntriesMax || (entries[i] && !write_jump(entries[i], list[i].with))) return false;
  }
  return true;
}

}  // namespace mortise::isolate
