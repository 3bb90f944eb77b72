// abi/start.cpp, and, so that the linker takes it along, this: a cdylib that the crate is linked into stays when it is closed. The
// kernel still reads the descriptor of the restartable sequence that each thread ran last, and a thread may be giving memory back.
// CMake's targets ask the linker for that (-z nodelete), which a crate cannot do for the crates that use it. musl never unloads.
#include "abi/start.cpp"

#include <dlfcn.h>
#include <link.h>

#ifdef __GLIBC__
namespace {

[[gnu::constructor]] void stay() noexcept {
  Dl_info place;
  struct link_map* object = nullptr;
  if (!dladdr1(reinterpret_cast<void*>(&stay), &place, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) || !object || !*object->l_name) return;
  using Open = void*(const char*, int);
  auto* const open = reinterpret_cast<Open*>(dlsym(RTLD_DEFAULT, "dlopen"));  // by name: a static program would be warned of it
  if (open) open(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace
#endif
