// Looking for what stands in front of ours, once: before the program begins, since to look things up waits for whoever loads a library.
#include "abi/front.hpp"

#include <dlfcn.h>
#include <link.h>

namespace mortise::abi {

constinit Front front{};

namespace {

constexpr int kNowhere = -1;

struct Search {
  std::uintptr_t address;
  int at = 0, found = kNowhere;
};

int look_into(dl_phdr_info* object, std::size_t, void* search) noexcept {
  auto& s = *static_cast<Search*>(search);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && s.address - (object->dlpi_addr + part.p_vaddr) < part.p_memsz) s.found = s.at;
  }
  ++s.at;
  return s.found != kNowhere;
}

/// The place in the order of search of the object that holds an address; kNowhere for null, and for what no object holds.
int place_of(const void* address) noexcept {
  Search s{reinterpret_cast<std::uintptr_t>(address)};
  if (address) ::dl_iterate_phdr(&look_into, &s);
  return s.found;
}

constexpr unsigned kBasics = 8;
constexpr const char* kBasic[kBasics] = {"_Znwm",  "_Znam",  "_ZnwmSt11align_val_t",  "_ZnamSt11align_val_t",
                                         "_ZdlPv", "_ZdaPv", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t"};
enum Basic : unsigned { kNew, kNewArray, kNewAligned, kNewArrayAligned, kDelete, kDeleteArray, kDeleteAligned, kDeleteArrayAligned };

/// What each derived operator calls, and what that one calls where it is itself derived.
struct Row {
  Basic calls, then = calls;
};
constexpr Row kRows[kDerived] = {
    {kNew}, {kNew}, {kNewArray, kNew}, {kNewAligned}, {kNewAligned}, {kNewArrayAligned, kNewAligned},
    {kDelete}, {kDelete}, {kDelete}, {kDeleteArray, kDelete}, {kDeleteArray, kDelete},
    {kDeleteAligned}, {kDeleteAligned}, {kDeleteAligned}, {kDeleteArrayAligned, kDeleteAligned}, {kDeleteArrayAligned, kDeleteAligned},
};

}  // namespace

void look_to_the_front() noexcept {
  const int ours = place_of(&front), libc = place_of(::dlsym(RTLD_DEFAULT, "__libc_start_main"));
  if (libc != kNowhere && ours > libc) return;  // opened by dlopen: we serve nobody by name
  // Of a program that is not position-independent it may be a jump to ours: taken for the program's, which comes to ours without a size.
  const auto in_front = [ours](const char* name) noexcept {
    void* const found = ::dlsym(RTLD_DEFAULT, name);
    const int place = place_of(found);
    return place != kNowhere && place < ours ? found : nullptr;
  };
  front.reallocates = reinterpret_cast<void* (*)(void*, std::size_t)>(in_front("realloc"));
  void* found[kBasics];
  for (unsigned i = 0; i < kBasics; ++i) found[i] = in_front(kBasic[i]);
  for (unsigned i = 0; i < kDerived; ++i) front.basic[i] = found[kRows[i].calls] ? found[kRows[i].calls] : found[kRows[i].then];
}

void* new_by_program(Derived which, std::size_t size, std::uintptr_t second) {
  return reinterpret_cast<void* (*)(std::size_t, std::uintptr_t)>(front.basic[static_cast<unsigned>(which)])(size, second);
}

void delete_by_program(Derived which, void* p, std::uintptr_t second) {
  reinterpret_cast<void (*)(void*, std::uintptr_t)>(front.basic[static_cast<unsigned>(which)])(p, second);
}

}  // namespace mortise::abi
