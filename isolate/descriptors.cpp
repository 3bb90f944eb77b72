// descriptors.cpp: files in memory.
#include "descriptors.hpp"

#include "raw.hpp"

namespace mortise::isolate {

long open_memory_file(const char* name, std::size_t bytes) noexcept {
  const long file = raw_syscall(SYS_memfd_create, as_long(name), 1 /* MFD_CLOEXEC */);
  if (failed(file)) return file;
  const long sized = raw_syscall(SYS_ftruncate, file, static_cast<long>(bytes));
  if (!failed(sized)) return file;
  raw_syscall(SYS_close, file);
  return sized;
}

}  // namespace mortise::isolate
