// A library that comes late: late LIBRARY. Opens a mortise library by dlopen and works with its functions beside libc's
// own.
#include <dlfcn.h>

#include <thread>
#include <vector>

#include "life.hpp"

int main(int, char** argv) {
  void* before = malloc(1000);
  void* handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  auto* const make = reinterpret_cast<void* (*)(std::size_t)>(dlsym(handle, "malloc"));
  auto* const give_back = reinterpret_cast<void (*)(void*)>(dlsym(handle, "free"));
  auto* const measure = reinterpret_cast<std::size_t (*)(void*)>(dlsym(handle, "malloc_usable_size"));
  auto* const make_object = reinterpret_cast<void* (*)(std::size_t)>(dlsym(handle, "_Znwm"));
  EXPECT(make && give_back && measure && make_object && make != malloc);
  const auto work = [=] {
    std::vector<void*> held;
    for (std::size_t n = 1; n < 400'000; n += n / 3 + 1) {
      held.push_back(make(n));
      EXPECT(held.back() && measure(held.back()) >= n);
      memset(held.back(), 1, n);
      held.push_back(make_object(n));
      EXPECT(measure(held.back()) >= n);
    }
    for (void* p : held) give_back(p);
  };
  work();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(work);
  for (auto& t : threads) t.join();
  give_back(before);  // libc's: passed on
  dlclose(handle);
  give_back(make(100));  // it stays
  puts("ok");
}
