// JSON into a buffer of the caller's, without memory of our own. What does not fit is counted, not written, so that a
// caller can ask for the length first (as snprintf).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::abi {

class Json {
 public:
  Json(char* out, std::size_t capacity) noexcept : out_(out), capacity_(capacity) {}

  Json& open(char bracket, const char* name = nullptr) noexcept {
    key(name);
    put(bracket);
    first_ = true;
    return *this;
  }
  Json& close(char bracket) noexcept {
    put(bracket);
    first_ = false;
    return *this;
  }
  Json& number(const char* name, std::uint64_t n) noexcept {
    key(name);
    digits(n);
    return *this;
  }
  Json& null(const char* name) noexcept {
    key(name);
    raw("null");
    return *this;
  }
  /// Control characters become spaces, bytes that are not UTF-8 question marks.
  Json& text(const char* name, const char* value) noexcept {
    key(name);
    put('"');
    while (*value) {
      if (*value == '"' || *value == '\\') put('\\');
      const unsigned n = utf8_length(value);
      if (n == 0) put('?');
      else if (n == 1) put(static_cast<unsigned char>(*value) < ' ' ? ' ' : *value);
      else for (unsigned i = 0; i < n; ++i) put(value[i]);
      value += n ? n : 1;
    }
    put('"');
    return *this;
  }
  Json& newline() noexcept {
    wants_newline_ = true;
    return *this;
  }
  /// Ends the text with a zero where there is room; returns the length that the whole text has.
  std::size_t finish() noexcept {
    if (capacity_) out_[length_ < capacity_ ? length_ : capacity_ - 1] = 0;
    return length_;
  }

 private:
  /// How many bytes the character at `s` has; 0: it is none. Neither overlong forms, nor surrogates, nor beyond U+10FFFF.
  static unsigned utf8_length(const char* s) noexcept {
    const auto at = [s](unsigned i) { return static_cast<unsigned char>(s[i]); };
    const unsigned lead = at(0);
    if (lead < 0x80) return 1;
    const unsigned n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    for (unsigned i = 1; i < n; ++i)
      if ((at(i) & 0xC0) != 0x80) return 0;
    const unsigned second = at(1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
    if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
    return n;
  }
  void key(const char* name) noexcept {
    if (!first_) put(',');
    if (wants_newline_) put('\n');
    wants_newline_ = first_ = false;
    if (!name) return;
    put('"');
    raw(name);
    raw("\": ");
  }
  void digits(std::uint64_t n) noexcept {
    char text[20];
    unsigned count = 0;
    do text[count++] = static_cast<char>('0' + n % 10); while (n /= 10);
    while (count) put(text[--count]);
  }
  void raw(const char* s) noexcept {
    while (*s) put(*s++);
  }
  void put(char c) noexcept {
    if (length_ < capacity_) out_[length_] = c;
    ++length_;
  }

  char* out_;
  std::size_t capacity_;
  std::size_t length_ = 0;
  bool first_ = true, wants_newline_ = false;
};

}  // namespace mortise::abi
