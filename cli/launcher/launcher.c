// mortise-launcher: runs one program once and says what it cost, as one line of JSON.
//
// Why a program of its own: the kernel folds the memory peak of whoever forks and executes a program into that
// program's ru_maxrss. A child of a Python process of 200 MB looks like 200 MB; a child that this launcher forks
// starts at less than 1 MB.
//
//   mortise-launcher [option...] -- PATH ARG0 [ARG...]
//     --result FD         where the line goes (3);  a line {"pid":N} precedes it as soon as the program runs
//     --stdin/--stdout/--stderr FILE   (/dev/null)     --set K=V
//     --memory MS         a memory run: sample the resident size every MS milliseconds, and read each process's own
//                         peak (VmHWM) at its exit stop; follows forks.  A time run does neither and only waits.
//     --count 1           count instructions and cycles in user mode
//     --series FILE       with --memory: the samples, "seconds bytes" a line
//     --unreached FILE    follow forks, and note each process that ends without the probe: "CPU-seconds peak-bytes program" a line
//
// Where tracing is refused neither the exact peak nor the notes are there. Processes that the program leaves behind are adopted,
// killed and counted. SIGTERM, SIGINT and SIGHUP kill the program.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "processes.h"

enum { kProcessesMax = 512 };
static const char kProbe[] = "mortise-probe.so";
static const double kDutyMax = 0.005;  // share of the time that sampling may take: who watches many processes looks less often

struct Options {
  int result;
  const char *input, *output, *errors, *series, *unreached;
  double sample_seconds;  // 0: a time run
  int is_counted;
  const char* path;
  char** arguments;
};

struct Process {
  pid_t pid;
  int statm;
};

struct Run {
  pid_t main_pid;
  double start, end;
  int status;
  struct rusage used;  // of the program and of what it left behind
  int left_behind;
  // memory runs only
  struct Process live[kProcessesMax];
  int live_count, processes;
  long peak_exit_bytes, peak_sampled_bytes, peak_anonymous_bytes, samples;
  double area, sampled_from, sampled_until, sampling_cost;
  long last_bytes, huge_bytes;
  bool is_traced, stopped_at_exit;
  int instructions, cycles;  // counters, or kNotCounted
  FILE *series, *unreached;
};

static double read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void) { return read_clock(CLOCK_MONOTONIC); }

static void die(const char* what, const char* which) {
  fprintf(stderr, "mortise-launcher: %s '%s': %s\n", what, which, strerror(errno));
  exit(125);
}

static void usage(const char* what) {
  fprintf(stderr, "mortise-launcher: %s; usage: mortise-launcher [option...] -- PATH ARG0 [ARG...]\n", what);
  exit(125);
}

static struct Options parse(int count, char** values) {
  struct Options o = {.result = 3, .input = "/dev/null", .output = "/dev/null", .errors = "/dev/null"};
  int i = 1;
  for (; i < count && strcmp(values[i], "--") != 0; i += 2) {
    const char* key = values[i];
    char* value = i + 1 < count ? values[i + 1] : NULL;
    if (value == NULL) usage("an option without its value");
    if (strcmp(key, "--result") == 0) o.result = atoi(value);
    else if (strcmp(key, "--stdin") == 0) o.input = value;
    else if (strcmp(key, "--stdout") == 0) o.output = value;
    else if (strcmp(key, "--stderr") == 0) o.errors = value;
    else if (strcmp(key, "--series") == 0) o.series = value;
    else if (strcmp(key, "--unreached") == 0) o.unreached = value;
    else if (strcmp(key, "--memory") == 0) o.sample_seconds = atof(value) / 1e3;
    else if (strcmp(key, "--count") == 0) o.is_counted = atoi(value);
    else if (strcmp(key, "--set") == 0) putenv(value);
    else usage("an unknown option");
  }
  if (i + 2 >= count) usage("no program");
  o.path = values[i + 1];
  o.arguments = values + i + 2;
  return o;
}

static void redirect(const char* path, int flags, int target) {
  int file = open(path, flags, 0600);
  if (file < 0) die("cannot open", path);
  if (file != target) {
    dup2(file, target);
    close(file);
  }
}

// The child: a group of its own, its files, and a wait until the parent has attached (memory runs).
static void become(const struct Options* o, const int gate[2]) {
  sigset_t none;
  sigemptyset(&none);
  setpgid(0, 0);
  redirect(o->input, O_RDONLY, 0);
  redirect(o->output, O_WRONLY | O_CREAT | O_TRUNC, 1);
  int complaints = fcntl(2, F_DUPFD_CLOEXEC, 10);
  redirect(o->errors, O_WRONLY | O_CREAT | O_APPEND, 2);
  char go;
  close(gate[1]);
  if (read(gate[0], &go, 1) != 1) _exit(126);
  close(gate[0]);
  close(o->result);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(o->path, o->arguments);
  dprintf(complaints, "mortise-launcher: cannot execute '%s': %s\n", o->path, strerror(errno));
  _exit(127);
}

static void add_usage(struct rusage* to, const struct rusage* from) {
  timeradd(&to->ru_utime, &from->ru_utime, &to->ru_utime);
  timeradd(&to->ru_stime, &from->ru_stime, &to->ru_stime);
  if (from->ru_maxrss > to->ru_maxrss) to->ru_maxrss = from->ru_maxrss;
  to->ru_minflt += from->ru_minflt;
  to->ru_majflt += from->ru_majflt;
  to->ru_nvcsw += from->ru_nvcsw;
  to->ru_nivcsw += from->ru_nivcsw;
}

// ---- memory runs: who lives, how large, and how large at most -----------------------------------------------------

static void watch(struct Run* run, pid_t pid) {
  for (int i = 0; i < run->live_count; i++)
    if (run->live[i].pid == pid) return;
  if (run->live_count == kProcessesMax) return;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
  run->live[run->live_count++] = (struct Process){pid, open(path, O_RDONLY | O_CLOEXEC)};
  run->processes++;
}

static void forget(struct Run* run, pid_t pid) {
  for (int i = 0; i < run->live_count; i++)
    if (run->live[i].pid == pid) {
      if (run->live[i].statm >= 0) close(run->live[i].statm);
      run->live[i] = run->live[--run->live_count];
      return;
    }
}

// The sum over the processes alive; pages that two of them share count twice. `anonymous` is what of it is no file's: the heap.
static long resident_bytes(const struct Run* run, long page_bytes, long* anonymous) {
  long pages = 0, shared = 0;
  for (int i = 0; i < run->live_count; i++) {
    char text[128];
    ssize_t got = run->live[i].statm < 0 ? 0 : pread(run->live[i].statm, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    char* second = strchr(text, ' ');
    if (second != NULL) pages += strtol(second, &second, 10), shared += strtol(second, NULL, 10);
  }
  *anonymous = (pages - shared) * page_bytes;
  return pages * page_bytes;
}

// Returns the CPU seconds that it took; being preempted meanwhile costs the program nothing.
static double sample(struct Run* run, long page_bytes) {
  double before = read_clock(CLOCK_THREAD_CPUTIME_ID);
  long anonymous, bytes = resident_bytes(run, page_bytes, &anonymous);
  double cost = read_clock(CLOCK_THREAD_CPUTIME_ID) - before, after = now();
  run->sampling_cost += cost;
  if (bytes <= 0) return cost;
  if (run->samples == 0) run->sampled_from = after;
  else run->area += ((double)bytes + (double)run->last_bytes) / 2 * (after - run->sampled_until);
  run->sampled_until = after;
  run->last_bytes = bytes;
  run->samples++;
  if (bytes > run->peak_sampled_bytes) run->peak_sampled_bytes = bytes;
  if (anonymous > run->peak_anonymous_bytes) run->peak_anonymous_bytes = anonymous;
  if (run->series != NULL) fprintf(run->series, "%.6f %ld\n", after - run->start, bytes);
  return cost;
}

// The rollup costs 8 us a resident MB and holds the program's locks: it is read this once, when nothing runs any more.
static void look_at_exit(struct Run* run, pid_t pid) {
  long bytes = read_bytes(pid, "status", "VmHWM:");
  if (bytes > run->peak_exit_bytes) run->peak_exit_bytes = bytes;
  if (bytes > 0 && pid == run->main_pid) run->stopped_at_exit = true;
  long huge = read_bytes(pid, "smaps_rollup", "AnonHugePages:");
  if (huge > run->huge_bytes) run->huge_bytes = huge;
  if (run->unreached != NULL) note_unreached(run->unreached, pid, kProbe);
}

// A traced process stopped: at its exit, at a fork, at a signal that is passed on, or with its group.
static void resume(struct Run* run, pid_t pid, int status) {
  int event = status >> 16, signal = WSTOPSIG(status);
  if (event == PTRACE_EVENT_EXIT) look_at_exit(run, pid);
  else if (event == PTRACE_EVENT_STOP &&
           (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)) {
    ptrace(PTRACE_LISTEN, pid, 0, 0);
    return;
  }
  watch(run, pid);
  ptrace(PTRACE_CONT, pid, 0, (void*)(long)(event == 0 ? signal : 0));
}

// Takes every news there is. True when the program itself has ended.
static bool collect(struct Run* run) {
  bool ended = false;
  for (;;) {
    int status;
    struct rusage used;
    bool is_last;
    pid_t pid = next_news(run->is_traced, WNOHANG, &status, &used, &is_last);
    if (pid <= 0) return ended;
    if (WIFSTOPPED(status)) {
      resume(run, pid, status);
      continue;
    }
    forget(run, pid);
    if (pid == run->main_pid) run->end = now(), run->status = status, ended = true;
    if (is_last) add_usage(&run->used, &used);  // of the program, or adopted: its parent did not wait for it
  }
}

static FILE* open_notes(const char* path) {
  FILE* file = path == NULL ? NULL : fopen(path, "we");
  if (path != NULL && file == NULL) die("cannot write", path);
  return file;
}

// Refused in some containers: then the samples and ru_maxrss stand, and nobody knows whom the probe did not reach.
static void attach(struct Run* run, const struct Options* o) {
  long wanted = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
  run->is_traced = ptrace(PTRACE_SEIZE, run->main_pid, 0, (void*)wanted) == 0;
  if (run->is_traced) run->unreached = open_notes(o->unreached);
  watch(run, run->main_pid);
  run->series = open_notes(o->series);
}

// ---- waiting ------------------------------------------------------------------------------------------------------

static void wait_for_end(struct Run* run, const struct Options* o, const sigset_t* signals) {
  long page_bytes = sysconf(_SC_PAGESIZE);
  double next = now();
  for (;;) {
    struct timespec left = {3600, 0};
    if (o->sample_seconds > 0) {
      double rest = sample(run, page_bytes) / kDutyMax;
      next += rest > o->sample_seconds ? rest : o->sample_seconds;
      double seconds = next - now();
      if (seconds < 0) next = now(), seconds = 0;
      left = (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    }
    int got;
    // News of the traced processes must be taken at once, but they do not move the time of the next sample.
    while ((got = sigtimedwait(signals, NULL, &left)) > 0 || errno == EINTR) {
      if (got != SIGCHLD) {
        kill(-run->main_pid, SIGKILL);
        _exit(124);
      }
      if (collect(run)) return;
      if (o->sample_seconds > 0) {
        double seconds = next - now();
        if (seconds <= 0) break;
        left = (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
      }
    }
  }
}

// A run is over when nothing of it is alive. What is adopted here was left behind by the program; its own children are adopted next.
static void clear_away(struct Run* run) {
  kill(-run->main_pid, SIGKILL);
  for (;;) {
    kill_adopted();
    int status;
    struct rusage used;
    bool is_last;
    pid_t pid = next_news(run->is_traced, 0, &status, &used, &is_last);
    if (pid == 0 || (pid < 0 && errno == EINTR)) continue;
    if (pid < 0) return;
    if (WIFSTOPPED(status)) {
      if (status >> 16 == PTRACE_EVENT_EXIT) look_at_exit(run, pid);
      ptrace(PTRACE_CONT, pid, 0, 0);
      kill(pid, SIGKILL);
    } else if (is_last) {
      add_usage(&run->used, &used);
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) run->left_behind++;  // what had ended by itself was not waited for
    }
  }
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static void tell(const struct Run* run, const struct Options* o) {
  const struct rusage* u = &run->used;
  double span = run->sampled_until - run->sampled_from;
  long average = span > 0 ? (long)(run->area / span) : run->last_bytes;
  const char* source = "rusage";
  long peak = u->ru_maxrss * 1024L;
  if (o->sample_seconds > 0) {
    // One process: its own exact peak, where a sample is a little off, being read from counters of each core. Several at once, or
    // a larger image before the last one: the largest sum seen.
    bool several = run->peak_sampled_bytes > run->peak_exit_bytes + (run->processes == 1 ? 1L << 20 : 0);
    long seen = several ? run->peak_sampled_bytes : run->peak_exit_bytes;
    // The leader may have ended before its threads: then the kernel's approximate figure is the larger one, by far.
    if (!run->stopped_at_exit || peak > seen + seen / 8 + (1L << 20)) peak = peak > seen ? peak : seen;
    else peak = seen, source = several ? "samples" : "exit_stop";
  }
  dprintf(
      o->result,
      "{\"wall_s\":%.9f,\"user_s\":%.6f,\"sys_s\":%.6f,\"exit_status\":%d,\"minor_faults\":%ld,\"major_faults\":%ld,"
      "\"voluntary_switches\":%ld,\"involuntary_switches\":%ld,\"peak_rss_bytes\":%ld,\"peak_source\":\"%s\","
      "\"peak_anon_bytes\":%ld,\"avg_rss_bytes\":%ld,\"samples\":%ld,\"sampling_cost_s\":%.6f,\"processes\":%d,\"left_behind\":%d,"
      "\"huge_page_bytes\":%ld,\"instructions\":%lld,\"cycles\":%lld}\n",
      run->end - run->start, seconds_of(u->ru_utime), seconds_of(u->ru_stime),
      WIFEXITED(run->status) ? WEXITSTATUS(run->status) : 128 + WTERMSIG(run->status), u->ru_minflt, u->ru_majflt,
      u->ru_nvcsw, u->ru_nivcsw, peak, source, run->peak_anonymous_bytes, average, run->samples, run->sampling_cost, run->processes,
      run->left_behind, run->huge_bytes, (long long)counted(run->instructions), (long long)counted(run->cycles));
}

// News of children, and what ends the run, but for what whoever started this has ignored (nohup, a script's background).
static sigset_t awaited(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int* s = (const int[]){SIGTERM, SIGINT, SIGHUP, 0}; *s != 0; s++) {
    struct sigaction now;
    if (sigaction(*s, NULL, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&signals, *s);
  }
  return signals;
}

int main(int count, char** values) {
  static struct Run run = {.instructions = kNotCounted, .cycles = kNotCounted};
  struct Options o = parse(count, values);
  sigset_t signals = awaited();
  sigprocmask(SIG_BLOCK, &signals, NULL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // nothing of a run goes on without who measures it
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int gate[2];
  if (pipe2(gate, O_CLOEXEC) != 0) die("cannot make", "a pipe");
  run.main_pid = fork();
  if (run.main_pid < 0) die("cannot start", o.path);
  if (run.main_pid == 0) become(&o, gate);
  setpgid(run.main_pid, run.main_pid);
  if (o.sample_seconds > 0 || o.unreached != NULL) attach(&run, &o);
  if (o.is_counted) {  // costs some percent where a program sleeps often
    run.instructions = count_event(run.main_pid, PERF_COUNT_HW_INSTRUCTIONS);
    run.cycles = count_event(run.main_pid, PERF_COUNT_HW_CPU_CYCLES);
  }
  dprintf(o.result, "{\"pid\":%d}\n", (int)run.main_pid);
  run.start = now();
  if (write(gate[1], "g", 1) != 1) die("cannot start", o.path);
  close(gate[1]);
  wait_for_end(&run, &o, &signals);
  clear_away(&run);
  if (run.series != NULL) fclose(run.series);
  if (run.unreached != NULL) fclose(run.unreached);
  tell(&run, &o);
  return 0;
}
