// What /proc says of a process that is at its exit stop: nothing of it runs any more, and all of it is there still.
#pragma once
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// A figure in kilobytes from one of the files of /proc/PID; the file is small.
static long read_bytes(pid_t pid, const char* name, const char* field) {
  char path[64], text[4096];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = 0;
  const char* line = strstr(text, field);
  return line == NULL ? 0 : atol(line + strlen(field)) * 1024;
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
