// The scenarios of forking.hpp: forking WHAT [LIBRARY]. The first with requests of every kind.
#include "forking.hpp"

int main(int, char** argv) {
  if (argv[1] == std::string("amid_fork")) return life::ForkAmidFork::run(), 0;
  if (argv[1] == std::string("amid_end")) return life::ForkAmidFork::run(SIGTERM), 0;
  if (argv[1] == std::string("amid_stop")) return life::ForkAmidStop::run(), 0;
  if (argv[1] == std::string("late")) return life::ForkWithOwnHandlers::run(argv[2]), 0;
  life::ForkAmidFlush().run([] {
    for (std::size_t bytes = 16; bytes <= 4 * life::kMiB; bytes *= 2)
      for (unsigned i = 0; i < (bytes < 64 << 10 ? 256 : 4); ++i) EXPECT(malloc(bytes));
  });
}
