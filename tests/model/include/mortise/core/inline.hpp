// The explorer's side of include/mortise/core/inline.hpp: the same marks. A model that defines MORTISE_MODEL_SEES_GLANCES makes each
// glance and each show a step of the search, and a moment at which a signal handler of the same thread may come.
#pragma once

#ifdef MORTISE_MODEL_SEES_GLANCES
#include <cstring>
#include <functional>
#include <source_location>

#include "explorer/hooks.hpp"
#endif

#define MORTISE_HOT inline
#define MORTISE_COLD
#define MORTISE_EXPORT

namespace mortise {

template <class T> MORTISE_HOT T* at_once(T* p) noexcept { return p; }
MORTISE_HOT void prefetch_to_write(const void*) noexcept {}

#ifdef MORTISE_MODEL_SEES_GLANCES

namespace model {

/// Called before and after each; a scenario puts a handler there, which it runs once if it likes. Null: none.
inline std::function<void()> g_signal;

template <class T> T word_step(Kind kind, const T& word, T value, std::source_location where) noexcept {
  Operation op{.kind = kind, .address = &word, .bytes = sizeof(T), .where = where};
  std::memcpy(static_cast<void*>(&op.operand), &value, sizeof(T));
  if (g_signal) g_signal();
  hooks::perform(op);
  if (g_signal) g_signal();
  std::memcpy(static_cast<void*>(&value), &op.result, sizeof(T));
  return value;
}

}  // namespace model

template <class T> T glance(const T& word, std::source_location where = std::source_location::current()) noexcept {
  return model::word_step(model::Kind::load, word, T{}, where);
}
template <class T> void show(T& word, T value, std::source_location where = std::source_location::current()) noexcept {
  model::word_step(model::Kind::store, word, value, where);
}

#else

template <class T> MORTISE_HOT T glance(const T& word) noexcept { return word; }
template <class T> MORTISE_HOT void show(T& word, T value) noexcept { word = value; }

#endif

}  // namespace mortise
