// What happens at a fault: one line that says what, where and what to do next; then abort, unless whoever runs the
// program has said otherwise for it. Nothing is allocated and no lock is taken on the way: files are read and written
// by system calls.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/heap.hpp"
#include "abi/places.hpp"
#include "mortise/os/console.hpp"
#include "mortise/sync/atomics.hpp"

namespace mortise {
namespace {

using ReportLine = os::Line<1024>;

void put_place(ReportLine& line, const char* what, const abi::Place& place) noexcept {
  if (!place.address) return;
  line.text(" ").text(what).text("=");
  if (place.file[0]) line.text(place.file).text("+").hex(place.offset);
  else line.hex(place.address);
}

/// What whoever runs the program wants done about a fault in it.
enum class Wish { end, go_on, be_silent };

/// One line of the exceptions file: `PROGRAM FAULT ACTION`. PROGRAM is a path, a file name or *; FAULT a name or *.
struct Words {
  const char* at[3];
  std::size_t length[3];

  bool is(unsigned i, const char* text) const noexcept {
    return strlen(text) == length[i] && memcmp(at[i], text, length[i]) == 0;
  }
};
bool split(const char* line, Words& words) noexcept {
  for (unsigned i = 0; i < 3; ++i) {
    line += strspn(line, " \t\r");
    words.at[i] = line;
    line += words.length[i] = strcspn(line, " \t\r#");
    if (!words.length[i]) return false;
  }
  line += strspn(line, " \t\r");
  return !*line || *line == '#';
}

/// The first line of the file that names this program and this fault decides.
class Exceptions {
 public:
  Wish wish_for(const char* file, Fault fault, Wish otherwise) noexcept {
    read_program();
    const long fd = os::syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
    Wish wish = otherwise;
    bool decided = false;
    std::size_t length = 0;
    long got = fd;
    const auto end_line = [&] {
      line_[length] = 0;
      length = 0;
      return decides(file, fault, wish);
    };
    while (fd >= 0 && !decided && (got = os::syscall(SYS_read, fd, buffer_, sizeof buffer_)) > 0) {
      for (long i = 0; i < got && !decided; ++i) {
        if (buffer_[i] == '\n') decided = end_line();
        else if (length < sizeof line_ - 1) line_[length++] = buffer_[i];
      }
    }
    if (got < 0 && abi::settings.exceptions[0]) abi::warn_of_file("cannot read ", file);
    if (got == 0) end_line();  // the last line need not end
    if (fd >= 0) os::syscall(SYS_close, fd);
    return wish;
  }

 private:
  /// Nothing where it cannot be told: then what is said of all programs holds.
  void read_program() noexcept {
    const long n = os::syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program_, sizeof program_ - 1);
    constexpr char kGone[] = " (deleted)";  // by an upgrade, perhaps, while it runs
    constexpr std::size_t kLength = sizeof kGone - 1;
    std::size_t length = n > 0 ? static_cast<std::size_t>(n) : 0;
    if (length > kLength && memcmp(program_ + length - kLength, kGone, kLength) == 0) length -= kLength;
    program_[length] = 0;
  }
  bool decides(const char* file, Fault fault, Wish& wish) const noexcept {
    Words words;
    const char* const first = line_ + strspn(line_, " \t\r");
    if (!*first || *first == '#') return false;
    if (!split(line_, words) || !names_fault(words) || !names_action(words)) return warn_of_line(file), false;
    const char* const slash = strrchr(program_, '/');
    if (!words.is(0, "*") && !words.is(0, program_) && !(slash && words.is(0, slash + 1))) return false;
    if (!words.is(1, "*") && !words.is(1, name_of(fault))) return false;
    wish = words.is(2, "abort") ? Wish::end : words.is(2, "report") ? Wish::go_on : Wish::be_silent;
    return true;
  }
  static bool names_fault(const Words& words) noexcept {
    if (words.is(1, "*")) return true;
    for (unsigned f = 0; f <= static_cast<unsigned>(Fault::heap_inconsistent); ++f)
      if (words.is(1, name_of(static_cast<Fault>(f)))) return true;
    return false;
  }
  static bool names_action(const Words& words) noexcept { return words.is(2, "abort") || words.is(2, "report") || words.is(2, "ignore"); }
  void warn_of_line(const char* file) const noexcept {
    ReportLine line;
    line.text("mortise[").text(abi::Card::kName).text("] warning: '").text(line_).text("' in ").text(file);
    line.text(" is ignored; a line is PROGRAM FAULT ACTION, with a fault's name or *, and abort, report or ignore").flush();
  }

  char program_[512];
  char buffer_[512];
  char line_[512];
};

}  // namespace

void abi::warn_of_file(const char* what, const char* path) noexcept {
  ReportLine line;
  line.text("mortise[").text(abi::Card::kName).text("] warning: ").text(what).text(path);
  line.text(": look at the setting's path, and at the rights").flush();
}

void abi::warn_of_full_file(const char* path) noexcept {
  ReportLine line;
  line.text("mortise[").text(abi::Card::kName).text("] warning: cannot write ").text(path);
  line.text(": it did not take all of it; look at the room on its disk").flush();
}

void tell(const Crime& crime) noexcept {
  abi::Place places[3];
  const void* const addresses[3] = {crime.allocated_at, crime.freed_at, crime.seen_at};
  for (unsigned i = 0; i < 3; ++i) places[i].address = address_of(static_cast<const std::byte*>(addresses[i]));
  abi::Mappings{}.find(places, 3);
  ReportLine line;
  line.text("mortise[").text(abi::Card::kName).text("] fault=").text(name_of(crime.fault));
  line.text(" ptr=").pointer(crime.block.ptr);
  if (!crime.block.is_unsized()) line.text(" size=").number(crime.block.size);
  put_place(line, "allocated_at", places[0]);
  put_place(line, "freed_at", places[1]);
  put_place(line, "seen_at", places[2]);
  line.text(" hint=\"").text(hint_of(crime.fault)).text("\"");
  ReportLine copy = line;
  line.flush();
  if (!abi::settings.report_file[0]) return;
  const abi::PathNow now(abi::settings.report_file);
  const long fd = os::syscall(SYS_openat, AT_FDCWD, now.text, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return abi::warn_of_file("cannot write ", now.text);
  os::Output out(static_cast<int>(fd));
  copy.flush(out);
  if (!out.close()) abi::warn_of_full_file(now.text);
}

[[noreturn]] void report(Fault fault, Block block) noexcept {
  tell({.fault = fault, .block = block});
  abort();
}

bool goes_on_after(const Crime& crime) noexcept {
  const Wish otherwise = abi::settings.goes_on ? Wish::go_on : Wish::end;
  const char* const file = abi::settings.exceptions[0] ? abi::settings.exceptions : "/etc/mortise/exceptions";
  const Wish wish = Exceptions{}.wish_for(file, crime.fault, otherwise);
  if (wish != Wish::be_silent) tell(crime);
  return wish != Wish::end;
}

}  // namespace mortise
