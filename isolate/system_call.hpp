// system_call.hpp: syscall(2) as libc offers it; what C++20 atomics, Rust and others use for futexes.
#pragma once

namespace mortise::isolate {

long system_call(long number, long a, long b, long c, long d, long e, long f) noexcept;

}  // namespace mortise::isolate
