#include "affinity/options.hpp"

#include <string.h>

#include <initializer_list>

namespace mortise::affinity {
namespace {

bool is(const char* text, std::size_t length, const char* word) noexcept {
  return strlen(word) == length && memcmp(text, word, length) == 0;
}

}  // namespace

const char* name_of(Mode mode) noexcept {
  constexpr const char* kNames[] = {"off", "size", "site", "chain", "graph"};
  return kNames[static_cast<unsigned>(mode)];
}

bool Options::set_mode(const char* text, std::size_t length) noexcept {
  for (const Mode m : {Mode::off, Mode::size, Mode::site, Mode::chain, Mode::graph}) {
    if (!is(text, length, name_of(m))) continue;
    mode = m;
    return true;
  }
  return false;
}

bool Options::set_mixing(const char* text, std::size_t length) noexcept {
  constexpr const char* kNames[] = {"off", "parts", "chains"};
  for (unsigned i = 0; i < 3; ++i) {
    if (!is(text, length, kNames[i])) continue;
    mixing = static_cast<Mixing>(i);
    return true;
  }
  return false;
}

bool Options::set_wrappers(const char* text, std::size_t length) noexcept {
  if (!is(text, length, "strict") && !is(text, length, "liberal")) return false;
  wrappers = is(text, length, "strict") ? WrapperRule::strict : WrapperRule::liberal;
  return true;
}

}  // namespace mortise::affinity
