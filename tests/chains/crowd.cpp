// crowd FORKS: eight threads build lists, trees and strings, hand them to each other, and end; the process forks meanwhile.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Tree {
  std::unique_ptr<Tree> left, right;
  long value;
};
std::unique_ptr<Tree> build(int depth) {
  return depth ? std::unique_ptr<Tree>(new Tree{build(depth - 1), build(depth - 1), depth}) : nullptr;
}
long sum(const Tree* t) { return t ? t->value + sum(t->left.get()) + sum(t->right.get()) : 0; }

std::mutex lock;
std::vector<std::unique_ptr<std::string>> mail;
std::vector<std::unique_ptr<Tree>> trees;

long live(unsigned seed) {
  long total = 0;
  for (int round = 0; round < 20; ++round) {
    std::map<int, std::string> map;
    std::list<int> list;
    for (int i = 0; i < 300; ++i) {
      map[static_cast<int>((i * 7919u + seed) % 1000)] = "a string that needs memory of its own " + std::to_string(i);
      list.push_back(i);
    }
    auto tree = build(8);
    auto text = std::make_unique<std::string>("a letter that another thread will throw away, number " + std::to_string(round));
    {
      const std::lock_guard guard(lock);
      mail.push_back(std::move(text));
      trees.push_back(std::move(tree));
      if (mail.size() > 10) {
        total += static_cast<long>(mail.front()->size() > 40);
        mail.erase(mail.begin());
        total += sum(trees.front().get()) > 0;
        trees.erase(trees.begin());
      }
    }
    for (const auto& [key, value] : map) total += key;
    for (const int i : list) total += i;
  }
  return total;
}

}  // namespace

int main(int, char** argv) {
  std::vector<std::thread> threads;
  std::vector<long> totals(8);
  for (unsigned i = 0; i < 8; ++i) threads.emplace_back([&totals, i] { totals[i] = live(i); });
  int good = 0;
  for (int n = std::atoi(argv[1]); n > 0; --n) {
    const pid_t child = fork();
    if (child == 0) {
      std::map<int, int> map;
      for (int i = 0; i < 500; ++i) map[i] = i;
      auto tree = build(6);
      _exit(map.size() == 500 && sum(tree.get()) > 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    good += status == 0;
  }
  long all = 0;
  for (auto& t : threads) t.join();
  for (const long t : totals) all += t;
  std::printf("%d children, %ld\n", good, all - 2 * (8 * 20 - 10));
}
