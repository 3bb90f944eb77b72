// opens.cpp: the loader tells in which folders it looks for a library (dlinfo).
#include "opens.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace mortise::isolate {
namespace {

/// The library around `code`, if it says where to look. Only then does it matter who calls.
link_map* that_says(const void* code) noexcept {
  Dl_info info;
  link_map* library = nullptr;
  if (!dladdr1(code, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) || !library) return nullptr;
  for (const ElfW(Dyn)* d = library->l_ld; d->d_tag != DT_NULL; ++d)
    if (d->d_tag == DT_RUNPATH || d->d_tag == DT_RPATH) return library;
  return nullptr;
}

void* open_in(const Dl_serinfo& folders, const char* file, int mode, Open open) {
  for (unsigned i = 0; i < folders.dls_cnt; ++i) {
    char path[4096];
    const char* const folder = folders.dls_serpath[i].dls_name;
    const std::size_t length = std::strlen(folder);
    if (length + 1 + std::strlen(file) >= sizeof path) continue;
    std::memcpy(path, folder, length);
    path[length] = '/';
    std::strcpy(path + length + 1, file);
    if (access(path, F_OK) != 0) continue;
    if (void* const library = open(path, mode)) return library;
  }
  return nullptr;
}

}  // namespace

void* open_as(const void* caller, const char* file, int mode, Open open) {
  link_map* const library = file && !std::strchr(file, '/') ? that_says(caller) : nullptr;
  if (!library) return open(file, mode);
  if (void* const there = open(file, mode | RTLD_NOLOAD)) return there;  // what is loaded comes first
  Dl_serinfo size;
  if (dlinfo(library, RTLD_DI_SERINFOSIZE, &size) != 0) return open(file, mode);
  auto* const folders = static_cast<Dl_serinfo*>(std::malloc(size.dls_size));
  if (!folders) return open(file, mode);
  std::memcpy(folders, &size, sizeof size);  // which says how much room there is
  void* found = dlinfo(library, RTLD_DI_SERINFO, folders) == 0 ? open_in(*folders, file, mode, open) : nullptr;
  std::free(folders);
  return found ? found : open(file, mode);
}

}  // namespace mortise::isolate
