// The Checks slot: does the pool watch over its users?
//
//   unchecked      nothing is there
//   checked_pool   a word and a site a slot; finds: an object returned twice, one that never came from here, leaks
//                  and who has them
//
// A site is the address of the code that acquired or returned, printed as file+offset, which addr2line reads.
//
// Progress: as the pool; a report writes one line and aborts, or calls `pool_options::on_fault` and goes on: the object
// is then left where it was.
#pragma once

#include <link.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>

#include "mortise/core/inline.hpp"
#include "mortise/os/console.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/pool/options.hpp"
#include "mortise/pool/slots.hpp"
#include "mortise/pool/thread_record.hpp"

namespace mortise {

struct unchecked {
  static constexpr bool kChecks = false;
  struct Site {};
  MORTISE_HOT static Site here() noexcept { return {}; }
  bool start(const pool_options&, const pools::Slots&) noexcept { return true; }
  MORTISE_HOT void on_acquire(const pools::Slots&, const void*, Site) noexcept {}
  MORTISE_HOT bool may_release(const pools::Slots&, const void*, Site) noexcept { return true; }
};

class checked_pool {
 public:
  static constexpr bool kChecks = true;
  using Site = const void*;
  /// An address in the function that this call was inlined into.
  MORTISE_HOT static Site here() noexcept { return return_address(); }
  checked_pool() = default;
  checked_pool(const checked_pool&) = delete;
  checked_pool& operator=(const checked_pool&) = delete;
  ~checked_pool() {
    if (records_) os::unmap(reinterpret_cast<std::byte*>(records_), bytes_);
  }

  bool start(const pool_options& options, const pools::Slots& slots) noexcept {
    name_ = options.name ? options.name : "pool";
    on_fault_ = options.on_fault;
    bytes_ = round_up(slots.maximum() * sizeof(Record), kPageMax);
    records_ = reinterpret_cast<Record*>(os::map_sparse(bytes_));
    return records_ != nullptr;
  }

  void on_acquire(const pools::Slots& slots, const void* object, Site site) noexcept {
    Record& record = records_[slots.index_of(object)];
    record.site.store(site, Order::relaxed);
    record.thread.store(pools::this_thread().thread, Order::relaxed);
    record.out.store(1, Order::relaxed);
  }

  /// Whether the pool may take `object` back; reports when it may not.
  bool may_release(const pools::Slots& slots, const void* object, Site site) noexcept {
    if (!slots.holds(object)) {
      os::Line<1024> line = begin("foreign_return", object);
      say_site(line, " returned_at=", site);
      line.text(" hint=\"give an object back to the pool it came from\"");
      return fault(line);
    }
    Record& record = records_[slots.index_of(object)];
    if (record.out.exchange(0, Order::relaxed) == 0) {
      os::Line<1024> line = begin("double_return", object);
      line.text(" index=").number(slots.index_of(object));
      say_site(line, " returned_at=", site);
      say_site(line, " returned_before_at=", record.site.load(Order::relaxed));
      line.text(" hint=\"return each object once; look for two owners\"");
      return fault(line);
    }
    record.site.store(site, Order::relaxed);
    return true;
  }

  /// Calls `say(line)` for every object that is out. Returns how many. Exact when the pool rests.
  template <class Say>
  std::uint32_t report_leaks(const pools::Slots& slots, std::uint32_t created, Say&& say) const noexcept {
    std::uint32_t leaks = 0;
    for (std::uint32_t i = 0; i < created; ++i) {
      const Record& record = records_[i];
      if (!record.out.load(Order::relaxed)) continue;
      ++leaks;
      os::Line<1024> line = begin("leak", slots.at(i));
      line.text(" index=").number(i).text(" thread=").number(record.thread.load(Order::relaxed));
      say_site(line, " acquired_at=", record.site.load(Order::relaxed));
      say(line.c_str());
    }
    return leaks;
  }

 private:
  static constexpr std::size_t kPageMax = 65536;
  struct Record {
    Atomic<const void*> site;      ///< who acquired it, or returned it last
    Atomic<std::uint32_t> out;     ///< 1 while it is acquired
    Atomic<std::uint32_t> thread;  ///< who acquired it
  };

  [[gnu::noinline]] static const void* return_address() noexcept { return __builtin_return_address(0); }

  os::Line<1024> begin(const char* what, const void* object) const noexcept {
    os::Line<1024> line;
    line.text("mortise[pool ").text(name_).text("] fault=").text(what).text(" ptr=").pointer(object);
    return line;
  }
  bool fault(os::Line<1024>& line) const noexcept {
    if (on_fault_) {
      on_fault_(line.c_str());
      return false;
    }
    line.flush();
    ::abort();
  }

  struct Search {
    std::uintptr_t address;
    os::Line<1024>* line;
    bool found;
  };
  static int visit(struct dl_phdr_info* info, std::size_t, void* data) {
    auto& search = *static_cast<Search*>(data);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || search.address - (info->dlpi_addr + part.p_vaddr) >= part.p_memsz) continue;
      const char* name = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "program";
      for (const char* c = name; *c; ++c)
        if (*c == '/') name = c + 1;
      search.line->text(name).put('+').hex(search.address - info->dlpi_addr);
      search.found = true;
      return 1;
    }
    return 0;
  }
  static void say_site(os::Line<1024>& line, const char* word, const void* site) noexcept {
    line.text(word);
    Search search{reinterpret_cast<std::uintptr_t>(site), &line, false};
    if (site) ::dl_iterate_phdr(visit, &search);
    if (!search.found) line.pointer(site);
  }

  const char* name_ = "pool";
  void (*on_fault_)(const char*) = nullptr;
  Record* records_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mortise
