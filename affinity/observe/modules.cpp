#include "affinity/observe/modules.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "affinity/seam.hpp"

// glibc 2.35 and newer.
extern "C" [[gnu::weak]] int _dl_find_object(void*, struct dl_find_object*) noexcept;

namespace mortise::affinity {
namespace {

/// The file's header lies at the start of the mapping; read with care, as a file may be laid out otherwise.
bool program_headers(const Module& m, const Elf64_Phdr*& headers, unsigned& count) noexcept {
  Elf64_Ehdr header;
  if (!read_memory(m.first, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  headers = reinterpret_cast<const Elf64_Phdr*>(m.first + header.e_phoff);
  count = header.e_phnum;
  Elf64_Phdr last;
  return count != 0 && read_memory(reinterpret_cast<std::uintptr_t>(headers + count - 1), &last, sizeof last);
}

struct Wanted {
  std::uintptr_t address;
  Module found;
};

/// For older C libraries: takes the loader's lock.
int match(dl_phdr_info* info, std::size_t, void* data) noexcept {
  auto& wanted = *static_cast<Wanted*>(data);
  Module m{.first = ~std::uintptr_t{0}, .bias = info->dlpi_addr, .path = info->dlpi_name};
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const auto& p = info->dlpi_phdr[i];
    const std::uintptr_t at = m.bias + p.p_vaddr;
    if (p.p_type == PT_LOAD && at < m.first) m.first = at & ~std::uintptr_t{4095};
    if (p.p_type == PT_LOAD && at + p.p_memsz > m.last) m.last = at + p.p_memsz;
    if (p.p_type == PT_GNU_EH_FRAME) m.unwind = reinterpret_cast<const std::uint8_t*>(at);
    if (p.p_type == PT_DYNAMIC) m.dynamic = reinterpret_cast<const void*>(at);
  }
  if (!m.holds(wanted.address)) return 0;
  wanted.found = m;
  return 1;
}

}  // namespace

Module module_of(std::uintptr_t address) noexcept {
  if (&_dl_find_object == nullptr) {
    Wanted wanted{address, {}};
    dl_iterate_phdr(match, &wanted);
    return wanted.found;
  }
  dl_find_object o;
  if (_dl_find_object(reinterpret_cast<void*>(address), &o) != 0) return {};
  Module m{.first = reinterpret_cast<std::uintptr_t>(o.dlfo_map_start), .last = reinterpret_cast<std::uintptr_t>(o.dlfo_map_end)};
  m.unwind = static_cast<const std::uint8_t*>(o.dlfo_eh_frame);
  if (o.dlfo_link_map) {
    m.bias = o.dlfo_link_map->l_addr;
    m.path = o.dlfo_link_map->l_name;
    m.dynamic = o.dlfo_link_map->l_ld;
  }
  return m;
}

Range code_of(const Module& m, std::uintptr_t address) noexcept {
  const Elf64_Phdr* headers;
  unsigned count;
  if (!m || !program_headers(m, headers, count)) return {};
  for (unsigned i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_LOAD || !(headers[i].p_flags & PF_X)) continue;
    const Range r{m.bias + headers[i].p_vaddr, m.bias + headers[i].p_vaddr + headers[i].p_filesz};
    if (r.holds(address)) return r;
  }
  return {};
}

std::size_t build_id_of(const Module& m, std::uint8_t* out, std::size_t room) noexcept {
  const Elf64_Phdr* headers;
  unsigned count;
  if (!m || !program_headers(m, headers, count)) return 0;
  for (unsigned i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_NOTE) continue;
    std::uintptr_t at = m.bias + headers[i].p_vaddr;
    const std::uintptr_t end = at + headers[i].p_memsz;
    for (Elf64_Nhdr note; at + sizeof note <= end && read_memory(at, &note, sizeof note);) {
      const std::uintptr_t name = at + sizeof note, description = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= room && read_memory(description, out, note.n_descsz))
        return note.n_descsz;
      at = description + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 0;
}

const char* name_of_slot(const Module& m, std::uintptr_t slot) noexcept {
  const auto* entry = static_cast<const Elf64_Dyn*>(m.dynamic);
  if (!entry) return nullptr;
  // The loader relocates these addresses in place, but for the vDSO's.
  const auto address = [&](const Elf64_Dyn* d) { return d->d_un.d_ptr < m.bias ? d->d_un.d_ptr + m.bias : d->d_un.d_ptr; };
  std::uintptr_t table[2] = {}, bytes[2] = {}, symbols = 0, strings = 0;
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_JMPREL) table[0] = address(entry);
    if (entry->d_tag == DT_PLTRELSZ) bytes[0] = entry->d_un.d_val;
    if (entry->d_tag == DT_RELA) table[1] = address(entry);
    if (entry->d_tag == DT_RELASZ) bytes[1] = entry->d_un.d_val;
    if (entry->d_tag == DT_SYMTAB) symbols = address(entry);
    if (entry->d_tag == DT_STRTAB) strings = address(entry);
  }
  if (!symbols || !strings) return nullptr;
  for (unsigned t = 0; t < 2; ++t) {
    const auto* r = reinterpret_cast<const Elf64_Rela*>(table[t]);
    for (std::size_t n = r ? bytes[t] / sizeof *r : 0; n > 0; --n, ++r) {
      if (m.bias + r->r_offset != slot) continue;
      const auto& symbol = reinterpret_cast<const Elf64_Sym*>(symbols)[ELF64_R_SYM(r->r_info)];
      return reinterpret_cast<const char*>(strings + symbol.st_name);
    }
  }
  return nullptr;
}

}  // namespace mortise::affinity
