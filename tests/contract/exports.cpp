// Should a symbol be missing, a program would call libc's in its place and hand the block to our free.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string.h>

namespace {

constexpr const char* kSymbols[] = {
#define X(name) #name,
#include "functions.inc"
#undef X
};

TEST(Exports, EverySymbolOfTheTableIsServedByThePreloadedLibrary) {
  ASSERT_GT(std::size(kSymbols), 40u);
  for (const char* name : kSymbols) {
    void* at = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(at, nullptr) << name;
    Dl_info where;
    ASSERT_NE(dladdr(at, &where), 0) << name;
    EXPECT_NE(strstr(where.dli_fname, "/libmortise-"), nullptr) << name << " is served by " << where.dli_fname;
    EXPECT_EQ(where.dli_saddr, at) << name << " is not the start of a function";
  }
}

}  // namespace
