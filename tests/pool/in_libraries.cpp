// If this fails, pools in the second of two shared libraries take a thread for another one at each call: rules by thread are in turn by
// call, and each acquisition of a checked pool asks the kernel who it is.
#include <cstdio>

extern "C" bool first_library();
extern "C" bool second_library();

int main() {
  const bool first = first_library(), second = second_library();
  std::printf("first %d, second %d\n", first, second);
  return first && second ? 0 : 1;
}
