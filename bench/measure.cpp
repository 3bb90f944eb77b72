// measure [--out FILE] [--expect PATH] [--timeout SECONDS] [--set NAME=VALUE]... -- PROGRAM [ARGUMENT]...
//
// Runs one program and writes what it cost as one line of JSON. The launcher is small and forks once, because a child
// inherits the peak RSS of whoever started it; the peak proper is VmHWM, read while the program is held at its exit.
// RSS over time is sampled from outside through statm, which costs microseconds and disturbs nobody.
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr double kSampleSeconds = 0.005;

struct Options {
  const char* out = nullptr;
  const char* expect = nullptr;
  double timeout = 3600;
  char** program = nullptr;
};

struct Memory {
  double seconds = 0;  // since the last sample
  double byte_seconds = 0;
  std::uint64_t samples = 0;
  std::uint64_t peak_sampled = 0;
  std::uint64_t peak_at_exit = 0;
  bool expected_seen = false;
};

[[noreturn]] void usage(const char* what) {
  std::fprintf(
      stderr, "measure: %s; expected [--out FILE] [--expect PATH] [--timeout S] [--set N=V]... -- PROGRAM ...\n", what);
  std::exit(2);
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

FILE* open_proc(pid_t pid, const char* what) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", static_cast<int>(pid), what);
  return std::fopen(path, "re");
}

/// One reading of statm stands for the time since the one before.
void sample(int statm, double elapsed, Memory& memory) {
  char text[128] = {};
  if (pread(statm, text, sizeof text - 1, 0) <= 0) return;
  unsigned long long total = 0, resident = 0;
  if (std::sscanf(text, "%llu %llu", &total, &resident) != 2 || resident == 0) return;  // of a program that has ended there is nothing
  const std::uint64_t bytes = resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  memory.byte_seconds += static_cast<double>(bytes) * elapsed;
  memory.seconds += elapsed;
  memory.samples += 1;
  if (bytes > memory.peak_sampled) memory.peak_sampled = bytes;
}

/// The program is held at its exit, its memory still in place.
void read_at_exit(pid_t pid, const Options& options, Memory& memory) {
  char line[4096];
  if (FILE* status = open_proc(pid, "status")) {
    unsigned long long kilobytes = 0;
    while (std::fgets(line, sizeof line, status) != nullptr)
      if (std::sscanf(line, "VmHWM: %llu", &kilobytes) == 1) memory.peak_at_exit = kilobytes * 1024;
    std::fclose(status);
  }
  if (options.expect == nullptr) return;
  if (FILE* maps = open_proc(pid, "maps")) {
    while (std::fgets(line, sizeof line, maps) != nullptr)
      if (std::strstr(line, options.expect) != nullptr) memory.expected_seen = true;
    std::fclose(maps);
  }
}

/// Passes on what stopped the program; true when it was the exit stop.
void resume(pid_t pid, int status, const Options& options, Memory& memory) {
  const int event = status >> 16, number = WSTOPSIG(status);
  if (event == PTRACE_EVENT_EXIT) {
    read_at_exit(pid, options, memory);
    ptrace(PTRACE_CONT, pid, 0, 0);
  } else if (event == PTRACE_EVENT_STOP && (number == SIGSTOP || number == SIGTSTP)) {
    ptrace(PTRACE_LISTEN, pid, 0, 0);
  } else {
    ptrace(PTRACE_CONT, pid, 0, event == 0 ? number : 0);
  }
}

pid_t start(const Options& options, const sigset_t& before) {
  int gate[2];
  if (pipe2(gate, O_CLOEXEC) != 0) usage("no pipe to be had");
  const pid_t pid = fork();
  if (pid == 0) {
    char go;
    if (read(gate[0], &go, 1) != 1) _exit(127);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execvp(options.program[0], options.program);
    std::fprintf(stderr, "measure: cannot start '%s': %s\n", options.program[0], std::strerror(errno));
    _exit(127);
  }
  if (pid < 0) usage("cannot fork");
  ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT);  // Where this is forbidden, the sampled peak has to do.
  if (write(gate[1], "g", 1) != 1) usage("cannot start the program");
  close(gate[0]);
  close(gate[1]);
  return pid;
}

void write_json(const Options& options, double wall, const rusage& used, const Memory& memory, int status, bool late) {
  FILE* out = options.out != nullptr ? std::fopen(options.out, "we") : stdout;
  if (out == nullptr) usage("cannot write the file of --out");
  std::uint64_t peak = memory.peak_at_exit;
  const char* source = "VmHWM";
  if (peak == 0) {
    const std::uint64_t accounted = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
    peak = accounted > memory.peak_sampled ? accounted : memory.peak_sampled;
    source = "ru_maxrss";
  }
  const double average = memory.seconds > 0 ? memory.byte_seconds / memory.seconds : static_cast<double>(peak);
  std::fprintf(out,
               "{\"wall_s\":%.6f,\"cpu_s\":%.6f,\"user_s\":%.6f,\"sys_s\":%.6f,\"peak_rss_bytes\":%llu,"
               "\"avg_rss_bytes\":%.0f,\"minor_faults\":%ld,\"major_faults\":%ld,\"samples\":%llu,\"peak_from\":\"%s\","
               "\"exit_status\":%d,\"timed_out\":%s,\"expected_seen\":%s}\n",
               wall, seconds(used.ru_utime) + seconds(used.ru_stime), seconds(used.ru_utime), seconds(used.ru_stime),
               static_cast<unsigned long long>(peak), average, used.ru_minflt, used.ru_majflt,
               static_cast<unsigned long long>(memory.samples), source,
               WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), late ? "true" : "false",
               memory.expected_seen ? "true" : "false");
  if (out != stdout) std::fclose(out);
}

int run(const Options& options) {
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &before);
  const pid_t pid = start(options, before);
  const double started = now();
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/statm", static_cast<int>(pid));
  const int statm = open(path, O_RDONLY | O_CLOEXEC);
  Memory memory;
  rusage used{};
  int status = 0;
  bool late = false;
  double last = started, due = started + kSampleSeconds;
  for (;;) {
    const pid_t got = wait4(pid, &status, WNOHANG | __WALL, &used);
    if (got == pid && (WIFEXITED(status) || WIFSIGNALED(status))) break;
    if (got == pid && WIFSTOPPED(status)) {
      resume(pid, status, options, memory);
      continue;
    }
    double left = due - now();
    if (left <= 0) {
      const double at = now();
      sample(statm, at - last, memory);
      last = at;
      due = at + kSampleSeconds;
      if (at - started > options.timeout && !late) {
        late = true;
        kill(pid, SIGKILL);
      }
      continue;
    }
    const timespec pause{0, static_cast<long>(left * 1e9)};
    sigtimedwait(&child, nullptr, &pause);
  }
  write_json(options, now() - started, used, memory, status, late);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") == 0) {
      options.program = argv + i + 1;
      break;
    }
    if (i + 1 >= argc) usage("a value is missing");
    const char* name = argv[i];
    char* value = argv[++i];
    if (std::strcmp(name, "--out") == 0) {
      options.out = value;
    } else if (std::strcmp(name, "--expect") == 0) {
      options.expect = value;
    } else if (std::strcmp(name, "--timeout") == 0) {
      options.timeout = std::strtod(value, nullptr);
    } else if (std::strcmp(name, "--set") == 0) {
      putenv(value);  // For the program; the launcher itself is long past its start.
    } else {
      usage("unknown option");
    }
  }
  if (options.program == nullptr || options.program[0] == nullptr) usage("no program");
  return run(options);
}
