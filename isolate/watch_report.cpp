// watch_report.cpp: the findings as JSON (schema mortise.threads/1), written by the leader as the program ends.
#include <cstdarg>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>

#include "message.hpp"
#include "raw.hpp"
#include "thread.hpp"
#include "watch.hpp"

namespace mortise::isolate {
namespace {

struct Writer {
  int fd;
  char text[1 << 14];
  std::size_t length = 0;
  bool is_whole = true;  // the file took all of it

  __attribute__((format(printf, 2, 3))) void put(const char* format, ...) noexcept {
    if (length > sizeof text - 1024) flush();
    va_list arguments;
    va_start(arguments, format);
    length += static_cast<std::size_t>(std::vsnprintf(text + length, sizeof text - length, format, arguments));
    va_end(arguments);
  }
  void flush() noexcept {
    is_whole &= raw_syscall(SYS_write, fd, as_long(text), static_cast<long>(length)) == static_cast<long>(length);
    length = 0;
  }
};

void put_place(Writer& w, const char* name, const void* address) noexcept {
  Dl_info info{};
  if (dladdr(address, &info) && info.dli_fname) {
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    w.put("\"%s\": {\"module\": \"%s\", \"offset\": %lu, \"symbol\": \"%s\"}", name, info.dli_fname, offset,
          info.dli_sname ? info.dli_sname : "");
  } else {
    w.put("\"%s\": null", name);
  }
}

void put_object(Writer& w, std::uintptr_t address) noexcept {
  void *block = nullptr, *site = nullptr;
  unsigned long bytes = 0;
  if (&mortise_watch_find && mortise_watch_find(reinterpret_cast<void*>(address), &block, &bytes, &site)) {
    w.put("\"object\": {\"address\": %lu, \"bytes\": %lu, ", reinterpret_cast<unsigned long>(block), bytes);
    put_place(w, "allocated_at", site);
    w.put("}, \"global\": null");
  } else {
    w.put("\"object\": null, ");
    put_place(w, "global", reinterpret_cast<void*>(address));
  }
}

void put_line(Writer& w, const HotPage& page, std::size_t l) noexcept {
  const WatchedLine& line = page.lines[l];
  std::uint64_t once = 0, twice = 0;
  for (const std::uint64_t bytes : line.bytes) twice |= once & bytes, once |= bytes;
  const std::uintptr_t address = page.address + l * kLineBytes;
  w.put("{\"address\": %lu, \"sharing\": \"%s\", \"rounds\": %u, ", address, twice ? "true" : "false", line.rounds);
  put_object(w, address + static_cast<unsigned>(__builtin_ctzll(once)));
  w.put(", \"writers\": [");
  bool first = true;
  for (int t = 0; t < kWatchedMax; ++t) {
    if (!line.bytes[t]) continue;
    w.put("%s{\"thread\": %d, \"samples\": %u, \"first_byte\": %d, \"last_byte\": %d}", first ? "" : ", ", t,
          line.samples[t], __builtin_ctzll(line.bytes[t]), 63 - __builtin_clzll(line.bytes[t]));
    first = false;
  }
  w.put("]}");
}

void put_threads(Writer& w) noexcept {
  bool first = true;
  for (const Thread& t : threads) {
    const Counts& c = t.counts;
    if (&t != leader && !t.tcb) continue;
    w.put(
        "%s\n    {\"thread\": %d, \"mmap\": %lu, \"munmap\": %lu, \"mprotect\": %lu, \"madvise\": %lu, \"lock_waits\": "
        "%lu, "
        "\"lock_wait_ns\": %lu}",
        first ? "" : ",", t.index, c.mmap, c.munmap, c.mprotect, c.madvise, c.lock_waits, c.lock_wait_ns);
    first = false;
  }
}

}  // namespace

void write_watch_report() noexcept {
  if (!watching()) return;
  static Writer w;
  w.fd = static_cast<int>(
      raw_syscall(SYS_open, as_long(setting("MORTISE_THREADS_WATCH")), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (w.fd < 0) {
    say("cannot write the findings to %s", setting("MORTISE_THREADS_WATCH"));
    return;
  }
  w.put("{\n  \"schema\": \"mortise.threads/1\",\n  \"rounds\": %u,\n  \"hot_pages\": %zu,\n  \"lines\": [",
        watch_rounds, hot_page_count);
  bool first = true;
  for (std::size_t p = 0; p < hot_page_count; ++p)
    for (std::size_t l = 0; l < kPage / kLineBytes; ++l) {
      if (!hot_pages[p].lines[l].rounds) continue;
      w.put("%s\n    ", first ? "" : ",");
      put_line(w, hot_pages[p], l);
      first = false;
    }
  w.put("\n  ],\n  \"threads\": [");
  put_threads(w);
  w.put("\n  ]\n}\n");
  w.flush();
  if (raw_syscall(SYS_close, w.fd) < 0 || !w.is_whole)
    say("cannot write all of the findings to %s: is its disk full?", setting("MORTISE_THREADS_WATCH"));
}

}  // namespace mortise::isolate
