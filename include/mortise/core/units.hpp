// Byte units as literals, so that a composition reads `64_KiB` and not `1 << 16`.
#pragma once

#include <cstddef>

namespace mortise {

consteval std::size_t operator""_KiB(unsigned long long n) { return static_cast<std::size_t>(n) << 10; }
consteval std::size_t operator""_MiB(unsigned long long n) { return static_cast<std::size_t>(n) << 20; }
consteval std::size_t operator""_GiB(unsigned long long n) { return static_cast<std::size_t>(n) << 30; }
consteval std::size_t operator""_TiB(unsigned long long n) { return static_cast<std::size_t>(n) << 40; }

}  // namespace mortise
