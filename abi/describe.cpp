// Prints an allocator's card and stack as JSON (schema mortise.allocator/1): what `mortise list` and `mortise explain`
// read. Built and run once for each allocator, by the build.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "abi/heap.hpp"

namespace {

using Card = mortise::allocators::MORTISE_ALLOCATOR;

std::string json_of(mortise::Progress p) {
  const std::string text[] = {name_of(p.hit), name_of(p.refill), name_of(p.grow)};
  return "{\"hit\": \"" + text[0] + "\", \"refill\": \"" + text[1] + "\", \"grow\": \"" + text[2] + "\"}";
}

/// What a request may count on that begins at a layer: for each on its way down.
template <class H> void progress_down(std::vector<mortise::Progress>& out) {
  out.push_back(H::kProgress);
  if constexpr (requires(H& h) { h.below; }) progress_down<decltype(H::below)>(out);
}

/// Collects what the layers say of themselves (`describe` of each layer).
class Describer {
 public:
  Describer& layer(const char* name, const char* what) {
    layers_.push_back({std::string("{\"name\": \"") + name + "\", \"what\": \"" + what + "\"", {}, {}});
    return *this;
  }
  Describer& policy(const char* slot, const char* answer) {
    std::string& all = layers_.back().policies;
    all += (all.empty() ? "\"" : ", \"") + std::string(slot) + "\": \"" + answer + "\"";
    return *this;
  }
  Describer& number(const char* name, long long value) {
    std::string& all = layers_.back().numbers;
    all += (all.empty() ? "\"" : ", \"") + std::string(name) + "\": " + std::to_string(value);
    return *this;
  }
  /// Of the layers that are listed in a way of their own, beside the way down, nothing is known but of the first.
  std::string take(const std::vector<mortise::Progress>& down) const {
    const std::size_t known = down.size() == layers_.size() ? down.size() : 1;
    std::string text;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& l = layers_[i];
      text += (i ? ",\n    " : "\n    ") + l.head + ", \"policies\": {" + l.policies + "}, \"parameters\": {" + l.numbers + "}";
      text += (i < known ? ", \"progress\": " + json_of(down[i]) : "") + "}";
    }
    return text;
  }

 private:
  struct Layer {
    std::string head, policies, numbers;
  };
  std::vector<Layer> layers_;
};

template <class... L> void describe(Describer& out, mortise::Layers<L...>) { (L::describe(out), ...); }

}  // namespace

int main() {
  Describer out;
  describe(out, Card::List{});
  std::vector<mortise::Progress> down;
  progress_down<Card::Heap>(down);
  std::printf("{\"schema\": \"mortise.allocator/1\", \"name\": \"%s\", \"version\": \"%s\",\n \"summary\": \"%s\", \"use\": \"%s\",\n",
              Card::kName, MORTISE_VERSION, Card::kSummary, Card::kUse);
  std::printf(" \"progress\": %s,\n", json_of(Card::Heap::kProgress).c_str());
  std::printf(" \"thread_bytes\": %zu, \"heap_bytes\": %zu,\n \"budget\": {\"malloc\": %u, \"free\": %u},\n \"layers\": [%s]}\n",
              std::is_empty_v<Card::Heap::Thread> ? std::size_t{0} : sizeof(Card::Heap::Thread), sizeof(Card::Heap),
              Card::kMallocBudget, Card::kFreeBudget, out.take(down).c_str());
}

// Linked for its types only; these are never called.
namespace mortise {
void report(Fault, Block) noexcept { std::abort(); }
void tell(const Crime&) noexcept {}
bool goes_on_after(const Crime&) noexcept { return false; }
}  // namespace mortise
