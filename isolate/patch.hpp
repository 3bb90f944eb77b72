// patch.hpp: replacing a libc function at its entry.
//
// Interposing a symbol changes what the program calls; libc's own calls (printf locking a stream, malloc mapping pages,
// C11 threads calling POSIX ones) never pass the symbol. So once the first thread is asked for, the runtime writes a
// jump over the entry of each function it replaces. Until then the program runs on untouched code.
#pragma once

#include <cstddef>

namespace mortise::isolate {

struct Replacement {
  const char* symbol;
  void* with;
  bool required;                  // absent in this glibc: not recognised (true), or simply not needed (false)
  const char* version = nullptr;  // of a form kept for old programs; null: the one that new programs get
};

/// Whether every entry can be replaced; if not, `culprit` names the first that cannot. Changes nothing.
bool can_replace(const Replacement* list, std::size_t count, const char*& culprit) noexcept;

/// Replaces them. False, with `culprit`, when one could not be; those before it are replaced then.
bool replace_all(const Replacement* list, std::size_t count, const char*& culprit) noexcept;

}  // namespace mortise::isolate
