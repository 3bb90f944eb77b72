// keys.cpp: destructors of thread-specific data.
#include "keys.hpp"

#include <climits>
#include <pthread.h>

#include "glibc.hpp"

namespace mortise::isolate {

void run_key_destructors() {
  for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; ++round) {
    bool again = false;
    for (int i = 0; i < kKeysMax; ++i) {
      const auto key = static_cast<pthread_key_t>(i);
      if (!(glibc.keys[i].sequence & 1)) continue;
      void* value = pthread_getspecific(key);
      if (!value) continue;
      pthread_setspecific(key, nullptr);
      if (auto* destructor = glibc.keys[i].destructor) {
        destructor(value);
        again = true;
      }
    }
    if (!again) return;
  }
}

}  // namespace mortise::isolate
