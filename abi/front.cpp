// Looking for what stands in front of ours, once: before the program begins, since to look things up waits for whoever loads a library.
#include "abi/front.hpp"

#include "abi/search_order.hpp"

namespace mortise::abi {

constinit Front front{};

namespace {

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
  const int ours = place_of(&front);
  if (is_behind_libc(ours)) return;
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
