// A plug-in in C++ of a program in C: `runs_out` asks its operators new for more than there is, with and without a new-handler.
#include <stdio.h>

#include <cstddef>
#include <new>

namespace {

volatile std::size_t too_much = std::size_t{1} << 60;
int asked = 0;

void gives_up() {
  if (++asked == 3) std::set_new_handler(nullptr);
}
[[noreturn]] void throws() { throw std::bad_alloc(); }

void tries(const char* what) {
  asked = 0;
  try {
    ::operator delete(::operator new(too_much));
  } catch (const std::bad_alloc&) {
    printf("%s: thrown, asked %d\n", what, asked);
  }
}
template <class... Align> void tries_quietly(const char* what, void (*handler)(), Align... align) {
  asked = 0;
  std::set_new_handler(handler);
  void* const p = ::operator new(too_much, align..., std::nothrow);
  printf("%s: %s, asked %d\n", what, p ? "made" : "null", asked);
}

}  // namespace

extern "C" void runs_out() {
  tries("alone");
  tries_quietly("alone", nullptr);
  std::set_new_handler(gives_up);
  tries("gives up");
  tries_quietly("gives up", gives_up);
  tries_quietly("gives up, aligned", gives_up, std::align_val_t{64});
  tries_quietly("throws", throws);
  fflush(stdout);
}
