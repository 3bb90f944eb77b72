// The analysis half's side of the seam, and its state: one analysis, one plan in a process that defines malloc.
#include "affinity/place/analysis.hpp"
#include "affinity/place/plan.hpp"
#include "affinity/place/profile.hpp"
#include "affinity/seam.hpp"

namespace mortise::affinity {

namespace {

constinit Analysis the_analysis{};
constinit Plan the_plan{};
constinit NodeId last_told = kNoNode;

}  // namespace

void observed(const NodeView& node, void* object, std::size_t size, const Resume& resume) noexcept {
  if (!the_plan.is_followed()) the_analysis.observe(node, object, size, resume);
}
void counted(NodeId node, std::size_t size) noexcept {
  if (!the_plan.is_followed()) the_analysis.count(node, size);
}
void about_to_pool(const NodeView& node) noexcept {
  if (!the_plan.is_followed()) the_analysis.decide(node);
}
void pool_grew(const NodeView& node, std::uintptr_t full, std::size_t bytes) noexcept {
  if (!the_plan.is_followed()) the_analysis.look_into(node, full, bytes);
}

void read_plan(const char* path) noexcept { the_plan.load(path); }

PlannedWay planned(const std::uintptr_t* chain, unsigned length, std::uint32_t size_class) noexcept {
  while (last_told < last_node()) {
    const NodeView v = view(++last_told);
    the_plan.made(v.id, v.chain, v.chain_length, v.size_class);
  }
  return the_plan.ask(chain, length, size_class);
}

void unloaded(std::uintptr_t first, std::uintptr_t last) noexcept {
  the_plan.forget(first, last);
  the_analysis.forget_code();
}

void dump_analysis(os::Output& out) noexcept {
  the_analysis.dump(out);
  dump_profile(out);
}

}  // namespace mortise::affinity
