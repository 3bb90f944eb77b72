// What the program defines itself, in front of ours. The C++ library's array, nothrow and sized operators come down to its basic ones, and
// libc's reallocarray to its realloc, whoever has replaced those: so do ours.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::abi {

/// The operators that are made of others; rows of a table in front.cpp.
enum class Derived : unsigned {
  new_array, new_nothrow, new_array_nothrow, new_array_aligned, new_aligned_nothrow, new_array_aligned_nothrow,
  delete_array, delete_sized, delete_nothrow, delete_array_sized, delete_array_nothrow,
  delete_array_aligned, delete_sized_aligned, delete_aligned_nothrow, delete_array_sized_aligned, delete_array_aligned_nothrow
};
inline constexpr unsigned kDerived = 16;

struct Front {
  void* basic[kDerived];                     ///< the program's operator that one comes down to; null: that is ours
  void* (*reallocates)(void*, std::size_t);  ///< null: realloc is ours
};

/// All zeros: nothing is in front. Set once, before the program begins, and read from then on.
extern constinit Front front [[gnu::visibility("hidden")]];
[[gnu::weak, gnu::visibility("hidden")]] void look_to_the_front() noexcept;  // weak: a library without malloc has nothing to look for

/// What the C++ library would do: the basic operator is called, which needs none of the further arguments. May throw what that one throws.
void* new_by_program(Derived which, std::size_t size, std::uintptr_t second = 0);
void delete_by_program(Derived which, void* p, std::uintptr_t second = 0);
/// The same for a nothrow form: null for whatever was thrown (new.cpp).
void* nothrow_by_program(Derived which, std::size_t size, std::uintptr_t second = 0);

}  // namespace mortise::abi
