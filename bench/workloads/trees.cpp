// Nothing but small objects: binary trees built and torn down, short-lived ones beside one that stays.
//
// Nodes come from operator new, so this is also the C++ path. An operation is one node made.
#include "workload.hpp"

namespace {

struct Node {
  Node* left;
  Node* right;
  std::uint64_t value;
};

Node* grow(unsigned depth, std::uint64_t value) {
  if (depth == 0) return new Node{nullptr, nullptr, value};
  return new Node{grow(depth - 1, 2 * value), grow(depth - 1, 2 * value + 1), value};
}

std::uint64_t sum(const Node* node) { return node == nullptr ? 0 : node->value + sum(node->left) + sum(node->right); }

void fell(Node* node) {
  if (node == nullptr) return;
  fell(node->left);
  fell(node->right);
  delete node;
}

std::uint64_t work(bench::Share share) {
  constexpr unsigned kDeepest = 14;
  Node* lasting = grow(kDeepest, 1);
  const std::uint64_t at_first = sum(lasting);
  std::uint64_t total = 0;
  for (std::uint64_t made = 0; made < share.ops;) {
    const auto depth = static_cast<unsigned>(share.random.between(4, kDeepest));
    Node* tree = grow(depth, 1);
    total += sum(tree);
    fell(tree);
    made += (std::uint64_t{2} << depth) - 1;
  }
  if (sum(lasting) != at_first) bench::fail("the lasting tree changed");
  fell(lasting);
  return total;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "trees", 30'000'000, work); }
