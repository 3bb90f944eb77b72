// exec_check.hpp: whether an exec would fail, asked before threads are ended for it.
#pragma once

namespace mortise::isolate {

/// The arguments of execveat. By a path alone: `folder` is AT_FDCWD and `flags` are 0.
struct Exec {
  int folder;
  const char* path;
  char* const* arguments;
  char* const* environment;
  long flags;
};

inline constexpr long kOnlyCheck = 0x10000;  // AT_EXECVE_CHECK, Linux 6.14: rights and arguments, not what is in the file

/// -errno where the exec would fail; 0 where it would not, or nobody can tell without doing it.
long why_exec_fails(const Exec& e) noexcept;

}  // namespace mortise::isolate
