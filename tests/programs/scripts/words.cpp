// Heavy headers make the compiler work; the program itself splits, counts and sorts words with standard containers.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::string text;
  for (int i = 0; i < 3000; i++) text += "word" + std::to_string(i * 7919 % 1009) + (i % 3 ? " " : ", ");
  std::map<std::string, int> counts;
  const std::regex word("(w)(or)?d([0-9]+)");
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) counts[it->str()]++;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<std::string>> made[4];
  for (auto& mine : made)
    threads.emplace_back([&mine] {
      for (int i = 0; i < 20000; i++) mine.push_back(std::make_unique<std::string>(i % 200, 'x'));
    });
  for (auto& thread : threads) thread.join();
  std::size_t bytes = 0;
  for (const auto& mine : made)
    for (const auto& each : mine) bytes += each->size();
  std::cout << counts.size() << ' ' << counts["word1"] << ' ' << bytes << '\n';
}
