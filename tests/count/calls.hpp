// The calls that are counted: a sequence made from a seed, the same in every process, carried out on a library that was
// loaded by name and not preloaded, so that nothing else uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mortise::count {

enum class Entry : std::uint8_t { malloc, free, calloc, realloc, aligned_alloc };
inline constexpr unsigned kEntries = 5;
const char* name_of(Entry entry);

/// One call. `slot` says where its pointer lies; sizes and slots come from the seed alone, never from an address.
struct Call {
  Entry entry;
  std::uint32_t slot;
  std::size_t size, align;
};

inline constexpr std::uint32_t kSlots = 4096;

/// Phases of growth, of shrinking and of both, over small, medium and large sizes: caches run full and empty, spans
/// come and go.
std::vector<Call> make_calls(std::uint64_t seed, std::size_t count);
std::string text_of(const Call& call);

/// An allocator from a file, and where its code lies.
struct Library {
  std::array<void*, kEntries> function{};
  std::uintptr_t text_begin = 0, text_end = 0;
  /// The first instructions of its restartable sequences, and the compiler's own helpers that were linked in.
  std::vector<std::uintptr_t> sections;
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> foreign;
};
/// Ends the process with one line if the file cannot be used.
Library load(const char* path);

}  // namespace mortise::count
