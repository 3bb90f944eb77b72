// The C++20 thread library: threads, shared mutexes, futures, atomic waits, latches, barriers, stop tokens, call_once.
#include <thread>
#include <mutex>
#include <shared_mutex>
#include <future>
#include <condition_variable>
#include <latch>
#include <barrier>
#include <semaphore>
#include <atomic>
#include <vector>
#include <string>
#include <map>
#include <iostream>
#include <stdexcept>
#include <stop_token>
struct Loud {
  std::string s;
  ~Loud() {
    if (!s.empty()) count.fetch_add(1);
  }
  static std::atomic<int> count;
};
std::atomic<int> Loud::count{0};
thread_local Loud loud;
int main() {
  std::mutex m;
  std::shared_mutex sm;
  std::map<int, std::string> table;
  long sum = 0;
  std::vector<std::thread> ts;
  for (int i = 0; i < 8; ++i)
    ts.emplace_back([&, i] {
      loud.s = "x" + std::to_string(i);
      for (int k = 0; k < 2000; ++k) {
        std::unique_lock l(sm);
        table[k] += "a";
      }
      for (int k = 0; k < 2000; ++k) {
        std::shared_lock l(sm);
        std::lock_guard g(m);
        sum += table[k].size() > 0;
      }
    });
  for (auto& t : ts) t.join();
  std::cout << "sum " << sum << " table " << table.size() << " " << table[7].size() << " destroyed " << Loud::count
            << "\n";
  auto f = std::async(std::launch::async, [] { return 42; });
  std::promise<std::string> p;
  auto pf = p.get_future();
  std::thread t([&] { p.set_value("promised"); });
  std::cout << f.get() << " " << pf.get() << "\n";
  t.join();
  auto bad = std::async(std::launch::async, []() -> int { throw std::runtime_error("thrown in a thread"); });
  try {
    bad.get();
  } catch (const std::exception& e) {
    std::cout << e.what() << "\n";
  }
  std::atomic<int> turn{0};
  std::thread w([&] {
    turn.wait(0);
    turn = 2;
    turn.notify_all();
  });
  turn = 1;
  turn.notify_all();
  turn.wait(1);
  w.join();
  std::cout << "turn " << turn << "\n";
  std::latch latch(4);
  std::barrier bar(4);
  std::counting_semaphore<8> sem(0);
  {
    std::vector<std::jthread> js;
    std::atomic<int> n{0};
    for (int i = 0; i < 4; ++i)
      js.emplace_back([&](std::stop_token) {
        latch.arrive_and_wait();
        for (int k = 0; k < 50; ++k) bar.arrive_and_wait();
        n++;
        sem.release();
      });
    for (int i = 0; i < 4; ++i) sem.acquire();
    std::cout << "released " << n << "\n";
  }
  std::jthread stopper([](std::stop_token s) {
    std::mutex m;
    std::condition_variable_any c;
    std::unique_lock l(m);
    c.wait(l, s, [] { return false; });
  });
  stopper.request_stop();
  stopper.join();
  std::condition_variable cv;
  bool ready = false;
  std::thread c([&] {
    std::lock_guard g(m);
    ready = true;
    cv.notify_one();
  });
  {
    std::unique_lock l(m);
    std::cout << "waited " << cv.wait_for(l, std::chrono::seconds(5), [&] { return ready; }) << "\n";
  }
  c.join();
  std::once_flag once;
  int runs = 0;
  try {
    std::call_once(once, [&] {
      ++runs;
      throw 1;
    });
  } catch (int) {
  }
  std::vector<std::thread> os;
  for (int i = 0; i < 4; ++i) os.emplace_back([&] { std::call_once(once, [&] { ++runs; }); });
  for (auto& o : os) o.join();
  std::cout << "once " << runs << "\n";
}
