// The small thread that gives memory back: idle_thread once (it gives no block out that the program has), idle_thread
// stuck (it gives back what lies beside pages that are locked in memory, and ends), idle_thread ends (what threads leave
// at their end goes back), idle_thread rights PAUSE-MS (it does not keep a user that the program has given up, whatever rhythm it works
// in), idle_thread refused (nor where its successor is refused), idle_thread last (nor does it speak for the program).
#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <string>
#include <vector>

#include "life.hpp"

namespace {

using life::kMiB, life::now_ms;

/// So much is free afterwards that the thread starts.
void free_some() {
  void* large[4];
  for (void*& p : large) memset(p = malloc(kMiB), 1, kMiB);
  for (void* p : large) free(p);
}

/// Where a quarantine goes down into the cache of a core, the thread does that while the program takes blocks from there. Its malloc
/// misses do not count as work, so it is emptied in the middle; with purge_ms=2 within some 20 ms.
int once() {
  constexpr std::size_t kSize = 64, kMost = 1'000'000;
  std::vector<std::uint64_t*> taken(kMost);
  for (int round = 0; round < 60; ++round) {
    void* waits[600];
    for (int i = 0; i < 600; ++i) waits[i] = malloc(i % 2 ? kSize : 112);
    free_some();
    for (void* p : waits) free(p);
    std::size_t n = 0;
    for (const std::uint64_t end = now_ms() + 25; n < kMost && now_ms() < end;)
      for (int i = 0; i < 64 && n < kMost; ++i) *(taken[n] = static_cast<std::uint64_t*>(malloc(kSize))) = n, ++n;
    for (std::size_t i = 0; i < n; ++i) EXPECT(*taken[i] == i);
    for (std::size_t i = 0; i < n; ++i) free(taken[i]);
  }
  return 0;
}

int stuck() {
  const std::size_t before = life::resident();
  constexpr unsigned kLocked = 5, kBytes = 320 * 1024;
  void *locked[kLocked], *between[kLocked];
  for (unsigned i = 0; i < kLocked; ++i) {
    locked[i] = memset(malloc(kBytes), 1, kBytes);
    between[i] = memset(malloc(kBytes), 1, kBytes);
    EXPECT(mlock(static_cast<char*>(locked[i]) + 100'000, 4096) == 0);
  }
  void* const large = memset(malloc(64 * kMiB), 1, 64 * kMiB);
  for (void* p : locked) free(p);
  free(large);
  EXPECT(life::wait_for([&] { return life::resident() < before + 12 * kMiB; }));
  EXPECT(life::wait_for([] { return life::threads() == 1; }));
  for (void* p : between) free(p);
  return 0;
}

std::atomic<unsigned> full{0};
std::atomic<bool> may_end{false};

void* fills_its_caches(void*) {
  for (int round = 0; round < 4; ++round)
    for (std::size_t size = 1000; size <= 32'000; size += size / 4) {
      std::vector<void*> held(size < 16'000 ? 32'000 / size : 2);
      for (void*& p : held) memset(p = malloc(size), 1, size);
      for (void* p : held) free(p);
    }
  ++full;
  while (!may_end) usleep(5'000);
  return nullptr;
}

/// The caches of threads, where they have some, are full, and the thread that gives memory back has come and gone.
int ends() {
  constexpr unsigned kThreads = 48;
  pthread_t threads[kThreads];
  const std::size_t before = life::resident();
  for (pthread_t& t : threads) EXPECT(pthread_create(&t, nullptr, fills_its_caches, nullptr) == 0);
  EXPECT(life::wait_for([] { return full == kThreads && life::threads() == kThreads + 1; }));
  may_end = true;
  for (pthread_t& t : threads) EXPECT(pthread_join(t, nullptr) == 0);
  EXPECT(life::wait_for([&] { return life::resident() < before + 12 * kMiB; }));
  return 0;
}

/// The real user of each thread of this process.
std::vector<unsigned> users() {
  std::vector<unsigned> found;
  DIR* const tasks = opendir("/proc/self/task");
  EXPECT(tasks);
  while (const dirent* const one = readdir(tasks)) {
    if (one->d_name[0] == '.') continue;
    char text[4096];
    const int fd = open((std::string("/proc/self/task/") + one->d_name + "/status").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;  // it has ended
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) continue;
    text[n] = 0;
    found.push_back(static_cast<unsigned>(strtoul(strstr(text, "\nUid:") + 5, nullptr, 10)));
  }
  closedir(tasks);
  return found;
}

constexpr unsigned kNobody = 65534;

/// True when the thread is there as root's, and the program is nobody's from here on. No other user may become another one.
bool gives_up_root() {
  if (getuid() != 0) return false;
  EXPECT(life::wait_for([] { return free_some(), life::threads() == 2; }));
  return setuid(kNobody) == 0;  // not with every set of capabilities
}

int rights(unsigned pause_ms) {
  if (!gives_up_root()) return 0;
  EXPECT(life::wait_for([pause_ms] {
    free_some();
    usleep(pause_ms * 1000);
    const std::vector<unsigned> now = users();
    return now.size() == 2 && now[0] == kNobody && now[1] == kNobody;
  }));
  return 0;
}

int refused() {
  if (!gives_up_root()) return 0;
  const rlimit none{};
  EXPECT(setrlimit(RLIMIT_NPROC, &none) == 0);
  EXPECT(life::wait_for([] {
    free_some();
    return life::threads() == 1;
  }));
  return 0;
}

/// The kernel gives a process the status of its last thread where each ends by itself.
int last() {
  const pid_t child = fork();
  if (child == 0) {
    EXPECT(life::wait_for([] { return free_some(), life::threads() == 2; }));
    syscall(SYS_exit, 3);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) != 0);
  return 0;
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1] ? argv[1] : "";
  return what == "once" ? once() : what == "stuck" ? stuck() : what == "ends" ? ends() : what == "rights" ? rights(static_cast<unsigned>(atoi(argv[2])))
         : what == "refused" ? refused() : what == "last" ? last() : 2;
}
