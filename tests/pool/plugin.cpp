// A plug-in with a pool of its own by the headers, which nobody has linked to stay.
#include "mortise/pool.hpp"

extern "C" [[gnu::visibility("default")]] bool use() {
  static mortise::distributed_pool<int> pool{{.maximum = 64}};
  return static_cast<bool>(pool.try_acquire(1));
}
