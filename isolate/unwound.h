// unwound.h: what(argument); and if it is left by unwinding (pthread_exit in a handler), clean(argument) on the way.
#pragma once

#ifdef __cplusplus
extern "C"
#endif
long mortise_isolate_call_unwound(long (*what)(void*), void (*clean)(void*), void* argument);
