// If this fails, an object of an affinity pool that another thread released is lost, or handed out twice, or its next owner sees
// it as it was before: the remote list of a head is run in every interleaving that matters.
#include <gtest/gtest.h>

#include "mortise/route/pool_segment.hpp"
#include "running.hpp"

namespace mortise::model {
namespace {

/// An object as the list sees it, its first word a link; and what its last holder left in it.
struct Object {
  std::byte* link = nullptr;
  Shared<int> released{0};
};

struct Remote {
  PoolHead head{};
  Object object[3];

  std::byte* bytes(unsigned i) { return reinterpret_cast<std::byte*>(&object[i]); }
  void release(unsigned i) {
    object[i].released = 1;
    head.push_remote(bytes(i));
  }
  /// As the owner does on its slow path: all at once.
  void drain() {
    for (std::byte *p = head.take_remote(), *next; p; p = next) {
      next = link_of(p);
      auto& found = *reinterpret_cast<Object*>(p);
      require(found.released.get() == 1, "an object came back that nobody had released, or twice");
      found.released = 2;
    }
  }
  void finish() {
    drain();
    for (Object& o : object) require(o.released.get() != 1, "a released object is lost");
  }
};

struct TwoReleaseWhileOneDrains : Remote {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) {
    if (thread < 2) release(thread);
    else drain(), drain();
  }
};

struct ThreeRelease : Remote {
  static constexpr unsigned kThreads = 3;
  void run(unsigned thread) { release(thread); }
};

TEST(PoolRemote, TwoReleaseWhileOneDrains) { check<TwoReleaseWhileOneDrains>("two releases against two drains"); }
TEST(PoolRemote, ThreeRelease) { check<ThreeRelease>("three releases"); }

}  // namespace
}  // namespace mortise::model
