// entries.hpp: the list of libc functions that an armed program finds replaced.
#pragma once

namespace mortise::isolate {

/// Whether all of them can be replaced; if not, the name of the culprit.
bool entries_known(const char*& culprit) noexcept;

/// Replaces all of them. False, with the name of the culprit, when one cannot be.
bool replace_entries(const char*& culprit) noexcept;

}  // namespace mortise::isolate
