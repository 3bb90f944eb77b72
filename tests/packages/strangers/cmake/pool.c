#include <mortise/pool.h>
#include <stdio.h>

int main(void) {
  mo_pool* pool = mo_pool_create(&(mo_pool_options){.size = 64, .maximum = 10});
  void* first = mo_pool_try_acquire(pool);
  printf("%d\n", mo_pool_owns(pool, first));
  mo_pool_release(pool, first);
  mo_pool_destroy(pool);
  return 0;
}
