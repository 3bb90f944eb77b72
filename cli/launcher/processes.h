// What the kernel says of processes. At its exit stop nothing of one runs any more, and all of it is there still.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A figure from one of the files of /proc/PID; the file is small.
static long read_number(pid_t pid, const char* name, const char* field) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = 0;
  const char* line = strstr(text, field);
  return line == NULL ? 0 : atol(line + strlen(field));
}

static long read_bytes(pid_t pid, const char* name, const char* field) { return read_number(pid, name, field) * 1024; }

// As wait4. A traced process that has ended is told of to who traces it, and then once more to its parent, which is this process when it
// was adopted: `is_last` when nobody else is to be told of the end. What a parent waits for is in the parent's figures.
static pid_t next_news(bool is_traced, int options, int* status, struct rusage* used, bool* is_last) {
  *is_last = true;
  if (!is_traced) return wait4(-1, status, options | __WALL, used);
  siginfo_t news = {.si_pid = 0};
  if (waitid(P_ALL, 0, &news, WEXITED | WNOWAIT | __WALL | options) != 0) return -1;
  if (news.si_pid == 0) return 0;
  bool has_ended = news.si_code == CLD_EXITED || news.si_code == CLD_KILLED || news.si_code == CLD_DUMPED;
  *is_last = has_ended && read_number(news.si_pid, "status", "PPid:") == (long)getpid();
  return wait4(news.si_pid, status, WNOHANG | __WALL, used);
}

// Those that left the group (daemons) are found as children of this process, once they are adopted.
static void kill_adopted(void) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = 0;
  char* rest = text;
  for (long pid = strtol(rest, &rest, 10); pid > 1; pid = strtol(rest, &rest, 10)) kill((pid_t)pid, SIGKILL);
}

static double cpu_seconds(pid_t pid) {
  clockid_t clock;
  struct timespec used;
  return clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0 ? (double)used.tv_sec + (double)used.tv_nsec * 1e-9 : 0;
}

// Whether the image of a process has a library of this name in it; where nobody may look it is taken to have it.
static bool has_loaded(pid_t pid, const char* library) {
  char path[64], *line = NULL;
  size_t room = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE* maps = fopen(path, "re");
  bool found = maps == NULL;
  while (!found && getline(&line, &room, maps) > 0) {
    const char* name = strrchr(line, '/');
    found = name != NULL && strncmp(name + 1, library, strlen(library)) == 0;
  }
  free(line);
  if (maps != NULL) fclose(maps);
  return found;
}

// A line on a process into which LD_PRELOAD did not bring the probe: CPU seconds, peak in bytes, program.
static void note_unreached(FILE* notes, pid_t pid, const char* probe) {
  if (has_loaded(pid, probe)) return;
  char path[64], program[4096];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  ssize_t length = readlink(path, program, sizeof program - 1);
  program[length > 0 ? length : 0] = 0;
  fprintf(notes, "%.6f\t%ld\t%s\n", cpu_seconds(pid), read_bytes(pid, "status", "VmHWM:"), program);
}
