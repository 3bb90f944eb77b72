// A pool of connections shared by many threads: made when needed, kept while idle, waited for when all are in use.
//
//   g++ -std=c++20 -O2 -I include examples/pool.cpp -o pool -pthread && ./pool
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include <mortise/pool.hpp>

/// Something that is dear to make.
struct Connection {
  int number = 0;
  int requests = 0;
};

/// The hooks: make may fail by returning null, reset runs at every return, destroy when the pool is trimmed or ends.
struct Connect : mortise::kept_constructed<Connection> {
  std::atomic<int> opened{0};  // make may run on several threads at once
  Connection* make(void* at) noexcept { return ::new (at) Connection{++opened}; }
  void destroy(Connection& c) noexcept {
    std::printf("connection %d served %d requests\n", c.number, c.requests);
    c.~Connection();
  }
};

int main() {
  mortise::distributed_pool<Connection, Connect> pool{{.maximum = 4, .name = "connections"}};
  if (!pool) return 1;

  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&pool] {
      for (int request = 0; request < 1000; ++request) {
        // Up to a second; then an empty handle. At the end of the scope the connection goes back, on whichever thread
        // that is.
        auto connection = pool.acquire_for(1'000'000'000);
        if (connection) ++connection->requests;
      }
    });
  }
  for (auto& client : clients) client.join();

  const mortise::pool_statistics s = pool.statistics();
  std::printf("%u of %u made, %u in use, %llu waits, the longest %.1f us\n", s.created, s.maximum, s.in_use,
              static_cast<unsigned long long>(s.waits), static_cast<double>(s.wait_ns_max) / 1000);
  pool.trim();  // ends the idle ones
  return 0;
}
