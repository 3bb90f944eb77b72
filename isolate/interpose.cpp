// interpose.cpp: the only symbols this library puts in front of libc's. Until a program asks for its first thread,
// they are all there is.
#include <cerrno>
#include <cstdarg>
#include <dlfcn.h>
#include <mqueue.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <threads.h>
#include <unistd.h>

#include "arm.hpp"
#include "create.hpp"
#include "credentials.hpp"
#include "end.hpp"
#include "epoll_signals.hpp"
#include "loads.hpp"
#include "memory.hpp"
#include "opens.hpp"
#include "parents.hpp"
#include "queues.hpp"
#include "raw.hpp"
#include "refuse.hpp"
#include "signal_files.hpp"
#include "thread.hpp"
#include "wiped.hpp"

#define MORTISE_ISOLATE_EXPORT extern "C" __attribute__((visibility("default")))

using namespace mortise::isolate;

namespace {

template <class F>
F next(const char* name) noexcept {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

MORTISE_ISOLATE_EXPORT int pthread_create(pthread_t* out, const pthread_attr_t* attributes, void* (*start)(void*),
                                          void* argument) noexcept {
  if (arm()) return create_thread(out, attributes, start, argument);
  return next<decltype(&pthread_create)>("pthread_create")(out, attributes, start, argument);
}

MORTISE_ISOLATE_EXPORT int thrd_create(thrd_t* out, thrd_start_t start, void* argument) {
  arm();  // libc's own then meets the replaced pthread_create, or the ordinary one
  return next<decltype(&thrd_create)>("thrd_create")(out, start, argument);
}

MORTISE_ISOLATE_EXPORT void pthread_exit(void* result) {
  if (armed()) exit_thread(result);
  next<decltype(&pthread_exit)>("pthread_exit")(result);
  __builtin_unreachable();
}

MORTISE_ISOLATE_EXPORT void thrd_exit(int result) {
  pthread_exit(reinterpret_cast<void*>(static_cast<std::intptr_t>(result)));
}

MORTISE_ISOLATE_EXPORT void* dlopen(const char* file, int mode) {
  const auto open = next<Open>("dlopen");
  if (!armed()) return open(file, mode);  // a jump: the loader sees who calls
  void* const library = open_as(__builtin_return_address(0), file, mode, open);
  give_tls_to_threads();
  return library;
}

/// The one memory call that leaves something behind which is looked for at the first thread.
MORTISE_ISOLATE_EXPORT int madvise(void* low, std::size_t bytes, int advice) noexcept {
  if (armed()) return advise_memory(low, bytes, advice);
  if (advice == MADV_WIPEONFORK) expect_wiped();
  const long result = raw_syscall(SYS_madvise, as_long(low), static_cast<long>(bytes), advice);
  return failed(result) ? (errno = static_cast<int>(-result), -1) : 0;
}

/// Who may trace the program it says at its start.
MORTISE_ISOLATE_EXPORT int prctl(int option, ...) noexcept {
  va_list rest;
  va_start(rest, option);
  unsigned long arguments[4];
  for (unsigned long& one : arguments) one = va_arg(rest, unsigned long);
  va_end(rest);
  return control_process(option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

/// Most programs make theirs before the first thread.
MORTISE_ISOLATE_EXPORT int signalfd(int fd, const sigset_t* set, int flags) noexcept { return make_signal_file(fd, set, flags); }

MORTISE_ISOLATE_EXPORT int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  return control_epoll(epoll, operation, fd, event);
}

MORTISE_ISOLATE_EXPORT int mq_notify(mqd_t queue, const sigevent* event) noexcept {
  if (armed() && is_thread() && !(event && event->sigev_notify == SIGEV_THREAD)) return notify_of_queue(queue, event);
  return next<decltype(&mq_notify)>("mq_notify")(queue, event);
}

MORTISE_ISOLATE_EXPORT int mq_close(mqd_t queue) noexcept {
  if (armed()) end_notice_of_queue(queue);
  return next<decltype(&mq_close)>("mq_close")(queue);
}

/// liburing and libaio make their calls by themselves.
MORTISE_ISOLATE_EXPORT int io_uring_queue_init_params(unsigned entries, void* ring, void* parameters) noexcept {
  const auto init = next<int (*)(unsigned, void*, void*)>("io_uring_queue_init_params");
  return !init || (armed() && denies_kernel_object("io_uring")) ? -ENOSYS : init(entries, ring, parameters);
}

MORTISE_ISOLATE_EXPORT int io_setup(int events, void* context) noexcept {
  const auto setup = next<int (*)(int, void*)>("io_setup");
  return !setup || (armed() && denies_kernel_object("libaio context")) ? -ENOSYS : setup(events, context);
}

MORTISE_ISOLATE_EXPORT pid_t getpid() noexcept { return program_process(); }

MORTISE_ISOLATE_EXPORT pid_t getppid() noexcept { return parent_process(); }
