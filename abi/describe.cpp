// Prints an allocator's card and stack as JSON (schema mortise.allocator/1): what `mortise list` and `mortise explain`
// read. Built and run once for each allocator, by the build.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "abi/heap.hpp"

namespace {

using Card = mortise::allocators::MORTISE_ALLOCATOR;

/// Collects what the layers say of themselves (`describe` of each layer).
class Describer {
 public:
  Describer& layer(const char* name, const char* what) {
    close();
    text_ += std::string(text_.empty() ? "" : ",") + "\n    {\"name\": \"" + name + "\", \"what\": \"" + what + "\"";
    open_ = true;
    return *this;
  }
  Describer& policy(const char* slot, const char* answer) {
    policies_ += (policies_.empty() ? "\"" : ", \"") + std::string(slot) + "\": \"" + answer + "\"";
    return *this;
  }
  Describer& number(const char* name, long long value) {
    numbers_ += (numbers_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + std::to_string(value);
    return *this;
  }
  std::string take() {
    close();
    return text_;
  }

 private:
  void close() {
    if (!open_) return;
    text_ += ", \"policies\": {" + policies_ + "}, \"parameters\": {" + numbers_ + "}}";
    policies_.clear();
    numbers_.clear();
    open_ = false;
  }
  std::string text_, policies_, numbers_;
  bool open_ = false;
};

template <class... L> void describe(Describer& out, mortise::Layers<L...>) { (L::describe(out), ...); }

}  // namespace

int main() {
  Describer out;
  describe(out, Card::List{});
  const mortise::Progress p = Card::Heap::kProgress;
  std::printf("{\"schema\": \"mortise.allocator/1\", \"name\": \"%s\", \"version\": \"%s\",\n \"summary\": \"%s\", \"use\": \"%s\",\n",
              Card::kName, MORTISE_VERSION, Card::kSummary, Card::kUse);
  std::printf(" \"progress\": {\"hit\": \"%s\", \"refill\": \"%s\", \"grow\": \"%s\"},\n", name_of(p.hit),
              name_of(p.refill), name_of(p.grow));
  std::printf(" \"thread_bytes\": %zu, \"heap_bytes\": %zu,\n \"budget\": {\"malloc\": %u, \"free\": %u},\n \"layers\": [%s]}\n",
              std::is_empty_v<Card::Heap::Thread> ? std::size_t{0} : sizeof(Card::Heap::Thread), sizeof(Card::Heap),
              Card::kMallocBudget, Card::kFreeBudget, out.take().c_str());
}

// Linked for its types only; these are never called.
namespace mortise {
void report(Fault, Block) noexcept { std::abort(); }
void tell(const Crime&) noexcept {}
bool goes_on_after(const Crime&) noexcept { return false; }
}  // namespace mortise
