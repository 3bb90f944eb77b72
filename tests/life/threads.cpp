// Threads come and go: threads order (who may still allocate when a thread ends), threads churn (thousands, memory
// bounded), threads handoff (blocks made here, freed there, by threads that end), threads stale (a write to a block that a
// thread which still sleeps has freed).
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "life.hpp"

namespace {

std::atomic<unsigned> destroyed{0};

struct AllocatesAtItsEnd {
  std::string text = std::string(300, 'x');
  ~AllocatesAtItsEnd() {
    EXPECT(text == std::string(300, 'x'));
    auto more = std::make_unique<std::vector<std::string>>(10, std::string(100, 'y'));
    ++destroyed;
  }
};
thread_local AllocatesAtItsEnd at_end;

pthread_key_t key;
/// Comes back in every round of key destructors, with a block that it frees and one that it makes.
void destroy(void* p) {
  EXPECT(memcmp(p, "round", 5) == 0);
  const char round = static_cast<char*>(p)[5];
  free(p);
  char* next = static_cast<char*>(malloc(4000));
  memcpy(next, "round", 5);
  next[5] = static_cast<char>(round + 1);
  if (round < '2') pthread_setspecific(key, next);
  else free(next);
  ++destroyed;
}

void* use_everything(void*) {
  at_end.text[0] = 'x';
  char* p = static_cast<char*>(malloc(100));
  memcpy(p, "round0", 7);
  pthread_setspecific(key, p);
  EXPECT(strlen(strerror(987654)) > 5);  // libc keeps this text for the thread and frees it last of all
  free(malloc(50000));
  return nullptr;
}

void at_exit_allocates() {
  std::vector<std::string> v(100, std::string(50, 'z'));
  EXPECT(v[99][49] == 'z');
  printf("atexit ran\n");
}

int order() {
  atexit(at_exit_allocates);
  EXPECT(pthread_key_create(&key, destroy) == 0);
  constexpr unsigned kThreads = 500;
  for (unsigned i = 0; i < kThreads; ++i) {
    pthread_t t;
    EXPECT(pthread_create(&t, nullptr, use_everything, nullptr) == 0);
    EXPECT(pthread_join(t, nullptr) == 0);
  }
  EXPECT(destroyed == kThreads * 4);
  use_everything(nullptr);
  return 0;
}

int churn() {
  EXPECT(pthread_key_create(&key, destroy) == 0);
  std::size_t first = 0;
  for (unsigned round = 0; round < 40; ++round) {
    for (unsigned i = 0; i < 25; ++i) {
      pthread_t t[4];
      for (auto& one : t) EXPECT(pthread_create(&one, nullptr, [](void*) -> void* {
        life::Churn churn(reinterpret_cast<std::uintptr_t>(&churn));
        churn.steps(100);
        churn.end();
        return use_everything(nullptr);
      }, nullptr) == 0);
      for (auto& one : t) pthread_join(one, nullptr);
    }
    if (round == 9) first = life::resident();
  }
  const std::size_t last = life::resident();
  printf("resident after 1000 threads %zu KiB, after 4000 %zu KiB\n", first >> 10, last >> 10);
  EXPECT(last < first + 12 * life::kMiB);
  return 0;
}

int handoff() {
  std::size_t first = 0;
  for (unsigned round = 0; round < 200; ++round) {
    std::vector<char*> blocks(2000);
    std::thread maker([&] { for (auto& p : blocks) memset(p = static_cast<char*>(malloc(500)), 1, 500); });
    maker.join();
    std::thread taker([&] { for (auto* p : blocks) free(p); });
    taker.join();
    if (round == 50) first = life::resident();
  }
  const std::size_t last = life::resident();
  printf("resident after 50 rounds %zu KiB, after 200 %zu KiB\n", first >> 10, last >> 10);
  EXPECT(last < first + 8 * life::kMiB);
  return 0;
}

int stale() {
  auto* const block = static_cast<volatile char*>(malloc(200));
  std::atomic<bool> freed{false};
  std::thread sleeper([&] {
    free(const_cast<char*>(block));
    freed = true;
    for (;;) pause();
  });
  sleeper.detach();
  while (!freed) std::this_thread::yield();
  block[8] = 1;
  exit(10);  // not 0: a harness that expects a report is not content with none
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1] ? argv[1] : "";
  return what == "order" ? order() : what == "churn" ? churn() : what == "handoff" ? handoff() : what == "stale" ? stale() : 2;
}
