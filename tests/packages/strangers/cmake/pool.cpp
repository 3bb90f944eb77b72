#include <mortise/pool.hpp>

#include <cstdio>

int main() {
  mortise::distributed_pool<int> pool{{.maximum = 4}};
  auto number = pool.try_acquire(1);
  std::printf("%d\n", number ? *number : 0);
}
