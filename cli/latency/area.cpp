#include "cli/latency/area.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/latency/next.hpp"
#include "cli/latency/timing.hpp"
#include "mortise/os/entropy.hpp"

namespace mortise::latency {

constinit Area area{};

namespace {

constexpr std::size_t kRecordBytes = (sizeof(Record) + 4095) & ~std::size_t{4095};
constexpr std::uint64_t kEveryMax = 1 << 22;  // gaps are 32 bits, stretched too
constexpr std::size_t kAreaBytes = kHeaderBytes + kRecordBytes * kRecordsMax;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
constinit pthread_key_t key{};
constinit bool has_key = false;
constinit char prefix[3072] = {};
constinit Header settings{};  // what each new file begins with
constinit Record nobodys{};   // what is counted here is not told

Record* record_at(std::uint32_t index) noexcept {
  return reinterpret_cast<Record*>(reinterpret_cast<char*>(area.header) + kHeaderBytes + kRecordBytes * index);
}

std::uint64_t number(const char* name, std::uint64_t otherwise) noexcept {
  const char* text = getenv(name);
  const std::uint64_t value = text ? strtoull(text, nullptr, 10) : 0;
  return value ? value : otherwise;
}

/// Brings pages in now, so that counting does not fault later. False where there is no room for them: who touches one is ended by SIGBUS.
bool populate(void* where, std::size_t bytes) noexcept {
  if (madvise(where, bytes, kPopulateWrite) == 0) return true;
  if (errno != EINVAL) return false;
  auto* const at = static_cast<volatile char*>(where);
  for (std::size_t i = 0; i < bytes; i += 4096) at[i] = at[i];
  return true;
}

/// A new file of this process, mapped at `where` (over what is there) or anywhere. A process may have several: it may
/// execute another program.
Header* new_file(void* where) noexcept {
  rlimit size{};
  if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur < kAreaBytes) return nullptr;  // SIGXFSZ would end the program
  char path[sizeof prefix + 64];
  int file = -1;
  for (int n = 0; file < 0 && n < 1000; ++n) {
    snprintf(path, sizeof path, "%s.%d.%d", prefix, static_cast<int>(getpid()), n);
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) return nullptr;
  }
  if (file < 0) return nullptr;
  void* mapped = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(kAreaBytes)) == 0)
    mapped = mmap(where, kAreaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | (where ? MAP_FIXED : 0), file, 0);
  close(file);
  if (mapped == MAP_FAILED) return nullptr;
  if (!populate(mapped, kHeaderBytes)) {
    munmap(mapped, kAreaBytes);
    return nullptr;
  }
  auto* const header = static_cast<Header*>(mapped);
  *header = settings;
  header->pid = static_cast<std::uint64_t>(getpid());
  return header;
}

/// Takes off what is counted ahead: the calls that were to go untimed and did not come.
void settle_accounts(Thread& t) noexcept {
  for (unsigned kind = 0; kind < kEmpty; ++kind) {
    if (t.left[kind] > 0) t.record->sums[kind].calls -= static_cast<std::uint64_t>(t.left[kind]);
    t.left[kind] = 0;
    t.drawn[kind] = 0;
  }
}

/// Called in each round of destructors, in which others come after it that ask for memory, too. What libc frees after the last one is not
/// counted: nobody would be there to give the record back.
void thread_ended(void*) noexcept {
  detach(self);
  if (++self.rounds < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(key, &self);
  else for (auto& left : self.left) left = kNever;
}

/// The thread that calls exit() is none that ends. Destructors of libraries may still ask for memory, and are counted.
[[gnu::destructor]] void process_ended() noexcept {
  if (self.record && area.header) settle_accounts(self);
}

/// The child of fork counts for itself: its area is fresh, and its only thread has no record yet.
void child_began() noexcept {
  Header* const header = area.header;
  if (!header) return;
  const bool is_amid = self.is_inside;  // a handler has forked amid a timed call, which goes on here
  area.header = nullptr;
  self = {};
  if (new_file(header)) area.header = header;
  else if (!is_amid) munmap(header, kAreaBytes);  // the parent's figures stay the parent's
  if (is_amid && !(area.header && attach(self))) area.header = nullptr, self.record = &nobodys;
  self.is_inside = is_amid;
}

void describe_process() noexcept {
  memcpy(settings.magic, "mortise-latency3", sizeof settings.magic);
  settings.header_bytes = kHeaderBytes;
  settings.record_bytes = kRecordBytes;
  settings.records = kRecordsMax;
  settings.kinds = kKinds;
  settings.buckets = Buckets::kCount;
  settings.parts = Buckets::kParts;
  settings.worst = kWorst;
  settings.is_clock_gettime = front.use_clock_gettime;
  const ssize_t length = readlink("/proc/self/exe", settings.program, kPathBytes - 1);
  settings.program[length > 0 ? length : 0] = 0;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(front.next.malloc), &info) != 0 && info.dli_fname)
    strncpy(settings.serves, info.dli_fname, kPathBytes - 1);
  const char* file = strrchr(settings.serves, '/');
  area.is_glibc = file && strncmp(file, "/libc.so.", 9) == 0;
}

/// Of a program that asks for memory all the time a sampled call is due every few microseconds: asking the kernel may
/// take a 1024th of the time, and no more.
void lengthen_window() noexcept {
  const std::uint64_t least = 1024 * refresh_ticks();
  if (settings.window_ticks < least) settings.window_ticks = least;
}

[[gnu::constructor]] void settle() noexcept {
  const char* wanted = getauxval(AT_SECURE) == 0 ? getenv("MORTISE_LATENCY") : nullptr;
  if (wanted && strlen(wanted) < sizeof prefix && find_next()) {
    strcpy(prefix, wanted);
    front.use_clock_gettime = getenv("MORTISE_LATENCY_CLOCK") != nullptr;  // the name says which: there is one other
    settings.every = number("MORTISE_LATENCY_EVERY", 64);
    area.slow_ticks = settings.slow_ticks = number("MORTISE_LATENCY_SLOW", 13'000);
    settings.window_ticks = number("MORTISE_LATENCY_WINDOW", 26'000);
    if (settings.every > kEveryMax) settings.every = kEveryMax;
    if (settings.every > 1) lengthen_window();
    if (settings.every > 1) front.pace_ticks = std::uint64_t{kPaceEvery} * kPaceShare * timing_ticks();
    front.every_scale = settings.every * kScaleOfOne;
    front.window_ticks = settings.window_ticks;
    describe_process();
    has_key = pthread_key_create(&key, thread_ended) == 0;
    pthread_atfork(nullptr, nullptr, child_began);
    area.header = new_file(nullptr);
  }
  area.is_settled = true;
}

}  // namespace

bool attach(Thread& t) noexcept {
  const int kept = errno;
  t.is_inside = true;  // where the key is not among the first, setting it asks for memory
  Header& h = *area.header;
  bool is_found = false;
  for (std::uint32_t i = 0; i < kRecordsMax && !is_found; ++i) {
    std::uint32_t nobody = 0;
    if (h.owner[i] != 0) continue;
    is_found = __atomic_compare_exchange_n(&h.owner[i], &nobody, static_cast<std::uint32_t>(gettid()), false,
                                           __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    if (!is_found) continue;
    is_found = populate(record_at(i), kRecordBytes);
    if (!is_found) {
      __atomic_store_n(&h.owner[i], 0, __ATOMIC_RELEASE);
      break;
    }
    t.index = i;
    t.record = record_at(i);
    std::uint32_t used = h.records_used;
    while (used <= i && !__atomic_compare_exchange_n(&h.records_used, &used, i + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }
  if (is_found) {
    t.record->known.at = 0;  // the snapshot is taken at the first timed call
    t.record->paced_at = 0;
    for (auto& left : t.left) left = 0;  // while there was no record, calls went by that nobody counted
    t.random = os::entropy() | 1;
    if (has_key) pthread_setspecific(key, &t);
  } else {
    t.is_inside = false;
    __atomic_fetch_add(&h.untimed_threads, 1, __ATOMIC_RELAXED);
  }
  errno = kept;
  return is_found;
}

void detach(Thread& t) noexcept {
  if (!t.record || !area.header) return;
  settle_accounts(t);
  t.record = nullptr;
  __atomic_store_n(&area.header->owner[t.index], 0, __ATOMIC_RELEASE);  // pairs with the acquisition in attach()
}

}  // namespace mortise::latency
