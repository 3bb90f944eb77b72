// refuse.cpp: what is known not to work, found before the first thread.
#include "refuse.hpp"

#include <dlfcn.h>

#include "message.hpp"

namespace mortise::isolate {

void refuse_what_cannot_work() noexcept {
  struct {
    const char* symbol;
    const char* name;
  } const sanitizers[] = {{"__asan_init", "AddressSanitizer"},
                          {"__tsan_init", "ThreadSanitizer"},
                          {"__msan_init", "MemorySanitizer"},
                          {"__hwasan_init", "HWAddressSanitizer"}};
  for (const auto& s : sanitizers)
    if (dlsym(RTLD_DEFAULT, s.symbol))
      refuse(
          "the program is built with %s, whose shadow memory belongs to one address space: unsupported; build it "
          "without",
          s.name);
}

}  // namespace mortise::isolate
