// An ordinary C++ program: words are counted in a hash table, indexed in a map, and joined into lines.
//
// Strings beyond the short ones, nodes of two containers and vectors of strings: the requests that most C++ programs
// make. An operation is one word.
#include <map>
#include <string>
#include <unordered_map>

#include "workload.hpp"

namespace {

std::string word(bench::Random& random) {
  // A few words are frequent, most are rare, and half are too long for the string itself.
  std::uint64_t number = random.size(1, 40'000);
  std::string text = number % 2 == 0 ? "a" : "an-uncommonly-long-word-";
  for (; number != 0; number /= 26) text += static_cast<char>('a' + number % 26);
  return text;
}

std::uint64_t read_page(bench::Random& random, std::uint64_t count) {
  std::unordered_map<std::string, std::uint64_t> counts;
  std::map<std::string, std::vector<std::uint32_t>> index;
  std::vector<std::string> lines(1);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string next = word(random);
    counts[next] += 1;
    if (i % 8 == 0) index[next].push_back(static_cast<std::uint32_t>(i));
    if (lines.back().size() + next.size() > 100) lines.emplace_back();
    lines.back() += next + " ";
  }
  std::uint64_t seen = 0, indexed = 0, letters = 0;
  for (const auto& [text, times] : counts) seen += times;
  for (const auto& [text, places] : index) indexed += places.size() * text.size();
  for (const std::string& line : lines) letters += line.size();
  if (seen != count) bench::fail("a word was lost");
  return seen + 31 * indexed + 961 * letters;
}

std::uint64_t work(bench::Share share) {
  constexpr std::uint64_t kPage = 40'000;
  std::uint64_t sum = 0;
  for (std::uint64_t done = 0; done < share.ops; done += kPage) sum += read_page(share.random, kPage);
  return sum;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "words", 3'000'000, work); }
