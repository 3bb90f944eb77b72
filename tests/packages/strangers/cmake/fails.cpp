// A program whose C++ library is linked statically, and operator new without memory: the handler is asked, and what is thrown is caught.
#include <cstddef>
#include <cstdio>
#include <new>

static int asked = 0;
static volatile std::size_t too_much = std::size_t{1} << 60;

int main() {
  std::set_new_handler([] {
    if (++asked == 3) std::set_new_handler(nullptr);
  });
  try {
    ::operator delete(::operator new(too_much));
  } catch (...) {
    std::printf("asked %d times, ", asked);
  }
  std::set_new_handler([] { throw std::bad_alloc(); });
  std::puts(::operator new(too_much, std::nothrow) ? "made" : "null");
}
