// unwound.c: a call out of which a handler may leave by pthread_exit: C and not C++, as once.c.
#include "unwound.h"

struct call {
  void (*clean)(void*);
  void* argument;
};

static void end_call(struct call* c) {
  if (c->clean) c->clean(c->argument);
}

__attribute__((visibility("hidden"))) long mortise_isolate_call_unwound(long (*what)(void*), void (*clean)(void*), void* argument) {
  __attribute__((cleanup(end_call))) struct call c = {clean, argument};
  const long result = what(argument);
  c.clean = 0;
  return result;
}
