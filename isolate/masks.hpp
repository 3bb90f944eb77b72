// masks.hpp: SIGSEGV is never blocked, nor are the two signals of the runtime, nor SIGSYS where calls are trapped (trap.hpp).
//
// An address space that is behind another one learns so by a fault (fault.hpp). The kernel does not deliver a fault to a
// thread that blocks SIGSEGV: it ends the process. Programs block "all signals" in their workers; they mean those sent.
#pragma once

#include <csignal>
#include <cstdint>

namespace mortise::isolate {

/// What of a mask a thread may block, while a handler runs as well: others wait for it to answer the runtime's own signals.
std::uint64_t blockable(std::uint64_t mask) noexcept;
std::uint64_t mask_of_program(const sigset_t& set) noexcept;

/// Unblocks what is never blocked in the calling thread.
void let_faults_through() noexcept;

/// The same for SIGSYS from now on, which a trapped call raises.
void let_traps_through() noexcept;

/// Replacements of pthread_sigmask (answers an error number) and sigprocmask (sets errno).
int change_signal_mask(int how, const sigset_t* set, sigset_t* old) noexcept;
int change_process_signal_mask(int how, const sigset_t* set, sigset_t* old) noexcept;

}  // namespace mortise::isolate
