#include "calls.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mortise::count {

const char* name_of(Entry entry) {
  constexpr const char* kNames[] = {"malloc", "free", "calloc", "realloc", "aligned_alloc"};
  return kNames[static_cast<unsigned>(entry)];
}

std::string text_of(const Call& call) {
  char text[80];
  switch (call.entry) {
    case Entry::free:
      std::snprintf(text, sizeof text, "free(p%u)", call.slot);
      break;
    case Entry::realloc:
      std::snprintf(text, sizeof text, "p%u = realloc(p%u, %zu)", call.slot, call.slot, call.size);
      break;
    case Entry::aligned_alloc:
      std::snprintf(text, sizeof text, "p%u = aligned_alloc(%zu, %zu)", call.slot, call.align, call.size);
      break;
    default:
      std::snprintf(text, sizeof text, "p%u = %s(%zu)", call.slot, name_of(call.entry), call.size);
  }
  return text;
}

std::vector<Call> make_calls(std::uint64_t seed, std::size_t count) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  const auto random = [&state](std::uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
  };
  std::vector<Call> calls;
  std::vector<bool> live(kSlots);
  std::uint64_t grow = 60, size_log2_max = 8;
  while (calls.size() < count) {
    if (calls.size() % 1000 == 0) {
      grow = 20 + random(70);
      size_log2_max = 5 + random(8);
    }
    const auto slot = static_cast<std::uint32_t>(random(kSlots));
    // Mostly one size range a phase; one call in 500 asks for up to 2 MiB.
    const std::uint64_t log2 = random(500) ? 3 + random(size_log2_max) : 13 + random(9);
    const std::size_t size = (std::size_t{1} << log2) + random(std::uint64_t{1} << log2);
    if (live[slot]) {
      const bool resize = random(8) == 0 && random(100) < grow;
      if (!resize && random(100) < grow) continue;
      calls.push_back({resize ? Entry::realloc : Entry::free, slot, size, 0});
      live[slot] = resize;
    } else if (random(100) < grow) {
      const std::uint64_t kind = random(20);
      const Entry entry = kind == 0 ? Entry::calloc : kind == 1 ? Entry::aligned_alloc : Entry::malloc;
      calls.push_back({entry, slot, size, std::size_t{16} << random(9)});
      live[slot] = true;
    }
  }
  return calls;
}

namespace {

[[noreturn]] void refuse(const char* path, const char* why) {
  std::fprintf(stderr, "mortise-count: %s: %s; expected a libmortise-NAME.so\n", path, why);
  std::exit(2);
}

/// Reads from the file where its code, its restartable sequences and the compiler's helpers lie.
void read_sections(const char* path, std::uintptr_t base, Library& library) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  if (file < 0 || ::fstat(file, &facts) != 0) refuse(path, "cannot be read");
  const auto* bytes = static_cast<const char*>(
      ::mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0));
  if (bytes == MAP_FAILED) refuse(path, "cannot be mapped");
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes);
  const auto* section = reinterpret_cast<const Elf64_Shdr*>(bytes + header->e_shoff);
  const char* names = bytes + section[header->e_shstrndx].sh_offset;
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const char* name = names + section[i].sh_name;
    const std::uintptr_t at = base + section[i].sh_addr;
    if (!std::strcmp(name, ".text")) {
      library.text_begin = at;
      library.text_end = at + section[i].sh_size;
    } else if (!std::strcmp(name, "__rseq_cs")) {
      // {version, flags, start, length, abort}: start is the third and fourth word, already relocated in memory.
      for (std::uintptr_t d = at; d < at + section[i].sh_size; d += 32)
        library.sections.push_back(*reinterpret_cast<const std::uintptr_t*>(d + 8));
    } else if (section[i].sh_type == SHT_SYMTAB) {
      const auto* symbol = reinterpret_cast<const Elf64_Sym*>(bytes + section[i].sh_offset);
      const char* strings = bytes + section[section[i].sh_link].sh_offset;
      for (std::size_t s = 0; s < section[i].sh_size / sizeof *symbol; ++s) {
        const char* symbol_name = strings + symbol[s].st_name;
        const std::size_t length = std::strlen(symbol_name);
        const bool helper =
            !std::strncmp(symbol_name, "__", 2) && length > 3 && !std::strcmp(symbol_name + length - 3, "di2");
        if (helper && symbol[s].st_size)
          library.foreign.emplace_back(base + symbol[s].st_value, base + symbol[s].st_value + symbol[s].st_size);
      }
    }
  }
  ::munmap(const_cast<char*>(bytes), static_cast<std::size_t>(facts.st_size));
  ::close(file);
  if (!library.text_begin) refuse(path, "has no code");
}

}  // namespace

Library load(const char* path) {
  // A name without a slash would be looked for in the library path.
  char* const full = ::realpath(path, nullptr);
  if (!full) refuse(path, "does not exist");
  void* const handle = ::dlopen(full, RTLD_NOW | RTLD_LOCAL);
  std::free(full);
  if (!handle) refuse(path, ::dlerror());
  Library library;
  for (unsigned i = 0; i < kEntries; ++i) {
    library.function[i] = ::dlsym(handle, name_of(static_cast<Entry>(i)));
    if (!library.function[i]) refuse(path, "lacks an entry point");
  }
  link_map* map = nullptr;
  ::dlinfo(handle, RTLD_DI_LINKMAP, &map);
  read_sections(path, map->l_addr, library);
  return library;
}

}  // namespace mortise::count
