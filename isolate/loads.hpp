// loads.hpp: libraries loaded after the first thread, by the program or by libc itself (character sets, name services).
#pragma once

namespace mortise::isolate {

/// Replacement of the loader's call to debuggers, made when libraries have been mapped and nothing in them has run, and when some
/// are gone: brings the other address spaces up to date.
void follow_loader() noexcept;

/// When libraries have been loaded: threads get the first values of what is in static thread-local storage.
void give_tls_to_threads() noexcept;

/// Before the first thread: what is loaded already.
void note_loaded() noexcept;

}  // namespace mortise::isolate
