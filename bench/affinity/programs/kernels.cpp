// Small programs whose data structures are built interleaved: kernels NAME [SIZE], SIZE in percent of the timed size.
//
//   mix     a list walked often, one walked once, and a search tree, all of one size class, from three call sites
//   wrap    the same behind one wrapper of malloc: only the chain of calls tells them apart
//   cxx     std::map, std::list, std::unordered_map and strings, grown together
//   astar   a grid of nodes with lists of neighbours, and searches that leave debris between them
//   equake  a sparse matrix of small rows, each an allocation
//   parser  short-lived pairs of lists
//
// After Figure 1 of [Wang10] and the programs it measures (300.twolf, 447.dealII, 473.astar, 183.equake, 197.parser).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

std::uint64_t state = 88172645463325252ull;

std::uint64_t random_number() {  // [Marsaglia03] xorshift
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

struct Hot {
  Hot* next;
  long value, unused[2];
};
struct Cold {
  Cold* next;
  Cold* previous;
  double number;
  long tag;
};
struct Leaf {
  Leaf* left;
  Leaf* right;
  long key, value;
};

[[gnu::noinline]] void* safe_malloc(std::size_t bytes) {
  void* p = std::malloc(bytes);
  if (!p) {
    std::fprintf(stderr, "kernels: no memory\n");
    std::exit(1);
  }
  return p;
}

struct Direct {
  static Hot* hot() { return static_cast<Hot*>(std::malloc(sizeof(Hot))); }
  static Cold* cold() { return static_cast<Cold*>(std::malloc(sizeof(Cold))); }
  static Leaf* leaf() { return static_cast<Leaf*>(std::malloc(sizeof(Leaf))); }
};
struct Wrapped {
  [[gnu::noinline]] static Hot* hot() {
    auto* p = static_cast<Hot*>(safe_malloc(sizeof(Hot)));
    p->value = 1;
    return p;
  }
  [[gnu::noinline]] static Cold* cold() {
    auto* p = static_cast<Cold*>(safe_malloc(sizeof(Cold)));
    p->tag = 1;
    return p;
  }
  [[gnu::noinline]] static Leaf* leaf() {
    auto* p = static_cast<Leaf*>(safe_malloc(sizeof(Leaf)));
    p->value = 1;
    return p;
  }
};

template <class Make> long interleaved(int percent) {
  const int count = 600 * percent, rounds = 40;
  Hot* first = nullptr;
  Hot** end = &first;
  Cold* cold = nullptr;
  Leaf* root = nullptr;
  for (int i = 0; i < count; ++i) {
    Hot* h = Make::hot();
    h->next = nullptr;
    h->value = i;
    *end = h;
    end = &h->next;
    for (int j = 0; j < 3; ++j) {
      Cold* c = Make::cold();
      *c = {cold, nullptr, static_cast<double>(i), j};
      cold = c;
    }
    if (i % 8) continue;
    Leaf* leaf = Make::leaf();
    *leaf = {nullptr, nullptr, static_cast<long>(random_number() >> 1), i};
    Leaf** at = &root;
    while (*at) at = leaf->key < (*at)->key ? &(*at)->left : &(*at)->right;
    *at = leaf;
  }
  long sum = 0;
  for (int r = 0; r < rounds; ++r) {
    for (const Hot* h = first; h; h = h->next) sum += h->value;
    for (int q = 0; q < 20 * percent; ++q) {
      const auto key = static_cast<long>(random_number() >> 1);
      for (const Leaf* l = root; l; l = key < l->key ? l->left : l->right) ++sum;
    }
  }
  for (const Cold* c = cold; c; c = c->next) sum += c->tag;
  return sum;
}

long cxx(int percent) {
  std::map<std::uint64_t, std::uint64_t> tree;
  std::list<std::uint64_t> list;
  std::unordered_map<std::uint64_t, std::uint64_t> table;
  std::vector<std::unique_ptr<std::string>> strings;
  for (int i = 0; i < 500 * percent; ++i) {
    const std::uint64_t key = random_number();
    const auto n = static_cast<std::uint64_t>(i);
    tree[key] = n;
    list.push_back(n);
    table[key] = n;
    strings.push_back(std::make_unique<std::string>("a string that does not fit into itself " + std::to_string(i)));
    list.push_back(n + 1);
  }
  std::uint64_t sum = 0;
  for (int r = 0; r < 16; ++r)
    for (const std::uint64_t n : list) sum += n;
  for (int r = 0; r < 6; ++r)
    for (const auto& [key, n] : tree) sum += n;
  for (int r = 0; r < 8; ++r)
    for (const auto& [key, n] : table) sum ^= n;
  return static_cast<long>(sum);
}

struct Place;
struct Neighbour {
  Neighbour* next;
  Place* place;
  int cost, unused;
};
struct Place {
  Neighbour* neighbours;
  long distance;
  int search, x, y;
};
struct Step {
  Step* next;
  Place* place;
  long cost, unused;
};

long astar(int percent) {
  const int width = 150, height = percent * 3 / 2 + 1;
  std::vector<Place*> grid(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  const auto at = [&](int x, int y) -> Place*& { return grid[static_cast<std::size_t>(y * width + x)]; };
  for (Place*& p : grid) {
    p = static_cast<Place*>(std::malloc(sizeof(Place)));
    p->neighbours = nullptr;
    p->search = 0;
  }
  constexpr int kDx[] = {1, -1, 0, 0}, kDy[] = {0, 0, 1, -1};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int d = 0; d < 4; ++d) {
        const int tx = x + kDx[d], ty = y + kDy[d];
        if (tx < 0 || ty < 0 || tx >= width || ty >= height || random_number() % 5 == 0) continue;
        Place* p = at(x, y);
        auto* n = static_cast<Neighbour*>(std::malloc(sizeof(Neighbour)));
        n->place = at(tx, ty);
        n->cost = 1 + static_cast<int>(random_number() % 9);
        n->next = p->neighbours;
        p->neighbours = n;
        auto* debris = static_cast<Step*>(std::malloc(sizeof(Step)));
        debris->place = p;
        if (random_number() & 1) std::free(debris);
      }
  long sum = 0;
  for (int search = 1; search <= 12; ++search) {
    std::deque<Place*> open;
    Place* start = grid[random_number() % grid.size()];
    start->search = search;
    start->distance = 0;
    open.push_back(start);
    Step* way = nullptr;
    while (!open.empty()) {
      Place* p = open.front();
      open.pop_front();
      auto* s = static_cast<Step*>(std::malloc(sizeof(Step)));
      s->place = p;
      s->next = way;
      way = s;
      for (const Neighbour* n = p->neighbours; n; n = n->next) {
        sum += n->cost;
        if (n->place->search == search) continue;
        n->place->search = search;
        n->place->distance = p->distance + n->cost;
        open.push_back(n->place);
      }
    }
    while (way) {
      Step* next = way->next;
      sum += way->place->distance;
      std::free(way);
      way = next;
    }
  }
  return sum;
}

long equake(int percent) {
  const int rows = 150 * percent, blocks = 6;
  auto** matrix = static_cast<double***>(std::malloc(sizeof(double**) * static_cast<std::size_t>(rows * blocks)));
  auto* column = static_cast<int*>(std::malloc(sizeof(int) * static_cast<std::size_t>(rows * blocks)));
  auto** x = static_cast<double**>(std::malloc(sizeof(double*) * static_cast<std::size_t>(rows)));
  auto** y = static_cast<double**>(std::malloc(sizeof(double*) * static_cast<std::size_t>(rows)));
  for (int i = 0; i < rows; ++i) {
    x[i] = static_cast<double*>(std::malloc(3 * sizeof(double)));
    y[i] = static_cast<double*>(std::malloc(3 * sizeof(double)));
    for (int k = 0; k < 3; ++k) x[i][k] = i % 7, y[i][k] = 0;
    for (int b = 0; b < blocks; ++b) {
      column[i * blocks + b] = (i + b * b * 3) % rows;
      double** block = matrix[i * blocks + b] = static_cast<double**>(std::malloc(3 * sizeof(double*)));
      for (int r = 0; r < 3; ++r) {
        block[r] = static_cast<double*>(std::malloc(3 * sizeof(double)));
        for (int c = 0; c < 3; ++c) block[r][c] = r + c + b;
      }
    }
  }
  double sum = 0;
  for (int t = 0; t < 60; ++t) {
    for (int i = 0; i < rows; ++i)
      for (int r = 0; r < 3; ++r) {
        double total = 0;
        for (int b = 0; b < blocks; ++b) {
          const double* row = matrix[i * blocks + b][r];
          const double* in = x[column[i * blocks + b]];
          total += row[0] * in[0] + row[1] * in[1] + row[2] * in[2];
        }
        y[i][r] = total;
      }
    sum += y[t * rows / 60][1];
  }
  return static_cast<long>(sum);
}

long parser(int percent) {
  struct Word {
    Word* next;
    int a, b;
    double weight;
  };
  struct Link {
    Link* next;
    long end[5];
  };
  long sum = 0;
  for (int sentence = 0; sentence < 2000 * percent; ++sentence) {
    Word* words = nullptr;
    Link* links = nullptr;
    for (int i = 0; i < 60; ++i) {
      auto* w = static_cast<Word*>(std::malloc(sizeof(Word)));
      w->next = words;
      w->a = i;
      words = w;
      auto* l = static_cast<Link*>(std::malloc(sizeof(Link)));
      l->next = links;
      l->end[0] = i;
      links = l;
    }
    for (const Word* w = words; w; w = w->next) sum += w->a;
    while (words) std::free(std::exchange(words, words->next));
    while (links) {
      sum += links->end[0];
      std::free(std::exchange(links, links->next));
    }
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const int percent = argc > 2 ? std::atoi(argv[2]) : 100;
  const std::string name = argc > 1 ? argv[1] : "";
  const struct {
    const char* name;
    long (*run)(int);
  } kernels[] = {{"mix", interleaved<Direct>}, {"wrap", interleaved<Wrapped>}, {"cxx", cxx},
                 {"astar", astar},             {"equake", equake},             {"parser", parser}};
  for (const auto& k : kernels)
    if (name == k.name && percent > 0) return std::printf("%ld\n", k.run(percent)) < 0;
  std::fprintf(stderr, "usage: kernels mix|wrap|cxx|astar|equake|parser [PERCENT]\n");
  return 2;
}
