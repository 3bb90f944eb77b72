// arm.hpp: turning a single-threaded program into one whose threads will live apart.
#pragma once

namespace mortise::isolate {

/// True once everything is in place; from then on pthread_create makes isolated threads.
bool armed() noexcept;

/// Arms on the first call. False when this program keeps ordinary threads: the reason was said in one line.
bool arm() noexcept;

}  // namespace mortise::isolate
