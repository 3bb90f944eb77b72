// refuse.hpp: programs that cannot be isolated are told so in one line, with exit status 78.
#pragma once

namespace mortise::isolate {

/// Looks for what is known not to work in the program as it is loaded. Returns when nothing was found (or when the user
/// insists, see message.hpp).
void refuse_what_cannot_work() noexcept;

}  // namespace mortise::isolate
