// loads.hpp: libraries loaded after the first thread, when the user insists (--anyway).
#pragma once

namespace mortise::isolate {

using Load = void* (*)(const char* file, int mode);

/// dlopen by `original` in this thread, then the same mappings in every other address space. The library's constructors
/// run before the others have it: should one make threads or publish itself, these meet a library that is not there
/// yet.
void* load_everywhere(const char* file, int mode, Load original) noexcept;

}  // namespace mortise::isolate
