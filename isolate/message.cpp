// message.cpp: one-line messages, formatted in a buffer on the stack and written with one system call.
#include "message.hpp"

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <sys/auxv.h>

#include "end.hpp"
#include "raw.hpp"

namespace mortise::isolate {
namespace {

constexpr std::size_t kLine = 512;

struct Line {
  char text[kLine];
  std::size_t length = 0;
  void put(char c) noexcept {
    if (length < kLine - 1) text[length++] = c;
  }
  void put(const char* s) noexcept {
    for (s = s ? s : "?"; *s; ++s) put(*s);
  }
  void put_number(unsigned long value, unsigned base) noexcept {
    char digits[24];
    int n = 0;
    do digits[n++] = "0123456789abcdef"[value % base];
    while (value /= base);
    while (n > 0) put(digits[--n]);
  }
};

void format_into(Line& line, const char* format, va_list arguments) noexcept {
  line.put("mortise threads: ");
  for (const char* p = format; *p; ++p) {
    if (*p != '%') {
      line.put(*p);
      continue;
    }
    ++p;
    while (*p == 'l') ++p;
    if (*p == 's') {
      line.put(va_arg(arguments, const char*));
    } else if (*p == 'd') {
      const int value = va_arg(arguments, int);
      if (value < 0) line.put('-');
      line.put_number(
          value < 0 ? 0ul - static_cast<unsigned long>(static_cast<long>(value)) : static_cast<unsigned long>(value),
          10);
    } else if (*p == 'x') {
      line.put("0x");
      line.put_number(va_arg(arguments, unsigned long), 16);
    }
  }
  line.text[line.length++] = '\n';
}

void write_line(const char* format, va_list arguments) noexcept {
  Line line;
  format_into(line, format, arguments);
  raw_syscall(SYS_write, 2, as_long(line.text), static_cast<long>(line.length));
}

}  // namespace

void say(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void explain(const char* format, ...) noexcept {
  const char* verbose = setting("MORTISE_VERBOSE");
  if (!verbose || std::strcmp(verbose, "1") != 0) return;
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void refuse(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
  if (setting("MORTISE_THREADS_ANYWAY")) return;
  end_program(kExitUnsupported);
}

const char* setting(const char* name) noexcept { return getauxval(AT_SECURE) ? nullptr : std::getenv(name); }

long setting_number(const char* name, long fallback, long least, long most) noexcept {
  const char* text = setting(name);
  if (!text || !*text) return fallback;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end == '\0' && value >= least && value <= most) return value;
  say("%s=%s is not a whole number from %d to %d; using %d", name, text, static_cast<int>(least),
      static_cast<int>(most), static_cast<int>(fallback));
  return fallback;
}

}  // namespace mortise::isolate
