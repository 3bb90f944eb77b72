// trap.hpp: opt-in trapping of private futexes made by system calls inside the program (MORTISE_THREADS_TRAP=1).
#pragma once

namespace mortise::isolate {

/// Installs the filter when asked for; all threads inherit it. Programs started later by exec inherit it too.
void install_futex_trap() noexcept;

}  // namespace mortise::isolate
