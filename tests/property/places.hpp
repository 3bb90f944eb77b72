// Where live blocks lie, in order of address: a block that comes must overlap none. A tree would take a node and a dozen cache misses for
// each block; this is a sorted array in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mortise::test {

class Places {
 public:
  struct Span {
    std::byte *begin, *end;
  };

  /// False, and nothing has changed, if it overlaps one that is there.
  bool add(Span s) {
    if (pieces_.empty()) pieces_.emplace_back(), firsts_.emplace_back();
    const std::size_t at = piece_of(s.begin);
    auto& piece = pieces_[at];
    const auto after = behind(piece, s.begin);
    if (after != piece.end() && s.end > after->begin) return false;
    if (after == piece.end() && at + 1 < pieces_.size() && s.end > firsts_[at + 1]) return false;
    if (after != piece.begin() && (after - 1)->end > s.begin) return false;
    piece.insert(after, s);
    firsts_[at] = piece.front().begin;
    if (piece.size() == kMost) split(at);
    return true;
  }
  void remove(std::byte* begin) {
    const std::size_t at = piece_of(begin);
    auto& piece = pieces_[at];
    piece.erase(behind(piece, begin));
    if (!piece.empty()) {
      firsts_[at] = piece.front().begin;
    } else {
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(at));
      firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

 private:
  using Piece = std::vector<Span>;
  static constexpr std::size_t kMost = 128;

  /// The last piece that begins at or before `p`, or the first one.
  std::size_t piece_of(const std::byte* p) const {
    const auto next = std::upper_bound(firsts_.begin(), firsts_.end(), p);
    return next == firsts_.begin() ? 0 : static_cast<std::size_t>(next - firsts_.begin()) - 1;
  }
  /// The first span that begins at or behind `p`.
  static Piece::iterator behind(Piece& piece, const std::byte* p) {
    return std::lower_bound(piece.begin(), piece.end(), p, [](const Span& s, const std::byte* at) { return s.begin < at; });
  }
  void split(std::size_t at) {
    const auto next = static_cast<std::ptrdiff_t>(at) + 1;
    Piece upper(pieces_[at].begin() + kMost / 2, pieces_[at].end());
    pieces_[at].resize(kMost / 2);
    firsts_.insert(firsts_.begin() + next, upper.front().begin);
    pieces_.insert(pieces_.begin() + next, std::move(upper));
  }

  std::vector<Piece> pieces_;
  std::vector<std::byte*> firsts_;  // where each piece begins
};

}  // namespace mortise::test
