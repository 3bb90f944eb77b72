// exec_check.cpp: looks at a file as the kernel would.
//
//   rights, kind of file, size of arguments   the kernel's own check; older ones are asked for less, piece by piece
//   the file's first bytes                    "#!": its interpreter is looked at in the same way
//                                             ELF: its interpreter must be there
//                                             else: not a program, unless a format of binfmt_misc may know it
//
// What cannot be read may still be executed. In doubt the answer is "it would not fail": a program that ends has at
// least tried, while one that is refused can do nothing about it.
#include "exec_check.hpp"

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "descriptors.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kHead = 256;      // what the kernel reads of a file to recognise it
constexpr int kInterpretersMax = 5;     // scripts that are run by scripts

struct Look {
  char interpreter[kHead];  // empty: none, or a name too long to be kept here
  bool is_script;
};

bool names_descriptor(const Exec& e) noexcept { return (e.flags & AT_EMPTY_PATH) && e.path && *e.path == '\0'; }

/// For kernels without the check: what the file's status and its permissions say.
long ask_piece_by_piece(const Exec& e) noexcept {
  struct stat status;
  const long told = raw_syscall(SYS_newfstatat, e.folder, as_long(e.path), as_long(&status), e.flags);
  if (failed(told)) return told;
  if (S_ISLNK(status.st_mode)) return -ELOOP;
  if (!S_ISREG(status.st_mode) || !(status.st_mode & 0111)) return -EACCES;
  return names_descriptor(e) ? 0 : raw_syscall(SYS_faccessat, e.folder, as_long(e.path), X_OK);
}

long may_execute(const Exec& e) noexcept {
  // A filter may end a program that asks, by a call that it would not have made itself.
  if (raw_syscall(SYS_prctl, PR_GET_SECCOMP) != 0) return ask_piece_by_piece(e);
  const long answer = raw_syscall(SYS_execveat, e.folder, as_long(e.path), as_long(e.arguments), as_long(e.environment),
                                  e.flags | kOnlyCheck);
  // These may be about the question: not known here.
  return answer == -EINVAL || answer == -ENOSYS || answer == -EPERM ? ask_piece_by_piece(e) : answer;
}

/// How many formats are registered with binfmt_misc; -1 where it is not mounted: the kernel does not tell then.
int further_formats() noexcept {
  const long folder = raw_syscall(SYS_open, as_long("/proc/sys/fs/binfmt_misc"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (failed(folder)) return -1;
  alignas(8) char list[512];
  int entries = 0;
  for (long got; (got = raw_syscall(SYS_getdents64, folder, as_long(list), sizeof list)) > 0;)
    for (long at = 0; at < got; at += reinterpret_cast<const dirent64*>(list + at)->d_reclen)
      entries += reinterpret_cast<const dirent64*>(list + at)->d_name[0] != '.';
  raw_syscall(SYS_close, folder);
  return entries == 0 ? -1 : entries - 2;  // "register" and "status"
}

/// What the kernel itself does not execute. `by_anyone`: nor can a format that is registered out of our sight.
long no_program(bool by_anyone) noexcept {
  const int further = further_formats();
  return further == 0 || (further < 0 && by_anyone) ? -ENOEXEC : 0;
}

bool is_text(const char* head, long bytes) noexcept {
  for (long i = 0; i < bytes && i < 4; ++i)
    if ((head[i] < ' ' || head[i] > '~') && head[i] != '\n' && head[i] != '\t') return false;
  return true;
}

/// "#! interpreter argument": the kernel takes the first word of the first line.
long read_script(const char* head, long bytes, Look& look) noexcept {
  const char* const end = head + bytes;
  const char* from = head + 2;
  while (from < end && (*from == ' ' || *from == '\t')) ++from;
  const char* to = from;
  while (to < end && !std::strchr(" \t\n", *to)) ++to;
  if (to == end && bytes == kHead) return 0;  // a longer name
  if (to == from) return -ENOEXEC;
  std::memcpy(look.interpreter, from, static_cast<std::size_t>(to - from));
  look.is_script = true;
  return 0;
}

/// The interpreter that a program of this machine names among its segments; of other machines' nothing is said.
long read_elf(int fd, const char* head, long bytes, Look& look) noexcept {
  Elf64_Ehdr elf;
  if (bytes < static_cast<long>(sizeof elf)) return no_program(true);
  std::memcpy(&elf, head, sizeof elf);
  if (elf.e_machine == EM_386) return 0;
  if (elf.e_machine != EM_X86_64 || elf.e_ident[EI_CLASS] != ELFCLASS64) return no_program(false);
  if (elf.e_type != ET_EXEC && elf.e_type != ET_DYN) return no_program(true);
  for (int i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr part;
    const long at = static_cast<long>(elf.e_phoff + i * sizeof part);
    if (raw_syscall(SYS_pread64, fd, as_long(&part), sizeof part, at) != sizeof part) return 0;
    if (part.p_type != PT_INTERP || part.p_filesz >= kHead) continue;
    raw_syscall(SYS_pread64, fd, as_long(look.interpreter), static_cast<long>(part.p_filesz), static_cast<long>(part.p_offset));
    return 0;
  }
  return 0;
}

long look_into(int fd, Look& look) noexcept {
  struct statfs system;
  if (!failed(raw_syscall(SYS_fstatfs, fd, as_long(&system))) && (system.f_flags & ST_NOEXEC)) return -EACCES;
  char head[kHead];
  const long bytes = raw_syscall(SYS_pread64, fd, as_long(head), sizeof head, 0);
  if (failed(bytes)) return 0;
  if (bytes >= 2 && std::memcmp(head, "#!", 2) == 0) return read_script(head, bytes, look);
  if (bytes >= SELFMAG && std::memcmp(head, ELFMAG, SELFMAG) == 0) return read_elf(fd, head, bytes, look);
  return no_program(is_text(head, bytes));
}

/// One file: the program, or what is to run it.
long check_file(const Exec& e, Look& look) noexcept {
  look = {};
  if (const long error = may_execute(e)) return error;
  if (names_descriptor(e)) {
    const long error = look_into(e.folder, look);
    // Its interpreter would be given a path by way of a descriptor that is closed by then.
    const bool closes = raw_syscall(SYS_fcntl, e.folder, F_GETFD) & FD_CLOEXEC;
    return error == 0 && look.is_script && closes ? -ENOENT : error;
  }
  const long fd = raw_syscall(SYS_openat, e.folder, as_long(e.path), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (failed(fd)) return 0;
  const long error = look_into(static_cast<int>(fd), look);
  close_descriptor(static_cast<int>(fd));  // the program may hold locks on the file
  return error;
}

}  // namespace

long why_exec_fails(const Exec& e) noexcept {
  Look look;
  long error = check_file(e, look);
  for (int depth = 1; error == 0 && look.interpreter[0]; ++depth) {
    if (depth > kInterpretersMax) return -ELOOP;
    char path[kHead];
    std::memcpy(path, look.interpreter, sizeof path);
    const Exec interpreter{AT_FDCWD, path, e.arguments, e.environment, 0};
    if (!look.is_script) return may_execute(interpreter);  // of an ELF file: it has none itself
    error = check_file(interpreter, look);
  }
  return error;
}

}  // namespace mortise::isolate
