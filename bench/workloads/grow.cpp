// Strings and vectors grown by realloc: texts appended to bit by bit, tables that double, and a few that shrink again.
//
// Half of the buffers grow by what is needed, the other half by doubling. An operation is one append; every text is
// read whole before it goes.
#include "workload.hpp"

namespace {

struct Text {
  unsigned char* at = nullptr;
  std::size_t length = 0, room = 0;
  bool doubles = false;

  void append(std::size_t count, unsigned char letter) {
    if (length + count > room) {
      room = doubles ? 2 * (length + count) : length + count;
      at = static_cast<unsigned char*>(std::realloc(at, room));
      if (at == nullptr) bench::fail("no memory");
    }
    std::memset(at + length, letter, count);
    length += count;
  }

  /// Gives back the room beyond the text, as a reader does that does not know the length beforehand.
  void shrink_to_fit() {
    if (length == room || length == 0) return;
    at = static_cast<unsigned char*>(std::realloc(at, length));
    room = length;
  }

  std::uint64_t give_back() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < length; ++i) sum += at[i];
    std::free(at);
    at = nullptr;
    length = room = 0;
    return sum;
  }
};

constexpr std::size_t kTexts = 64;

std::uint64_t work(bench::Share share) {
  std::vector<Text> texts(kTexts);
  std::vector<std::size_t> ends(kTexts);  // how long each text may become
  for (std::size_t i = 0; i < kTexts; ++i) {
    texts[i].doubles = i % 2 == 0;
    ends[i] = share.random.size(100, 2'000'000);
  }
  std::uint64_t written = 0, read = 0;
  for (std::uint64_t i = 0; i < share.ops; ++i) {
    const std::size_t n = share.random.below(kTexts);
    Text& text = texts[n];
    const std::size_t count = share.random.between(1, 60) + text.length / 64;
    const auto letter = static_cast<unsigned char>('a' + i % 26);
    text.append(count, letter);
    written += count * letter;
    if (text.length < ends[n]) continue;
    if (share.random.below(4) == 0) text.shrink_to_fit();
    read += text.give_back();
    ends[n] = share.random.size(100, 2'000'000);
  }
  for (Text& text : texts) read += text.give_back();
  if (read != written) bench::fail("a text lost what was written to it");
  return read;
}

}  // namespace

int main(int argc, char** argv) { return bench::run(argc, argv, "grow", 400'000, work); }
