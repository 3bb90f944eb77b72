// Files of a threaded program: descriptors opened after create, mappings made before and after, private writes that all
// threads see and the file does not, one stream written by four threads.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 3 << 20 };
static pthread_barrier_t turn;
static int fd = -1;
static char *early, *late_private, *late_shared, *late_read;
static FILE* stream;

static void* other(void* unused) {
  pthread_barrier_wait(&turn);
  char byte = 0;
  printf("descriptor: %d %c\n", (int)pread(fd, &byte, 1, 10), byte);
  printf("maps: %c %c %c %c\n", early[5], late_private[10], late_shared[10], late_read[10]);
  early[6] = 'E';
  late_private[11] = 'P';
  late_shared[12] = 'S';
  printf("late write read back: %c%c%c\n", early[6], late_private[11], late_shared[12]);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("early by main: %c\n", early[2 << 20]);
  return unused;
}

static void* writes(void* name) {
  for (int i = 0; i < 2000; ++i) fprintf(stream, "%s line %d\n", (char*)name, i);
  return NULL;
}

int main(int count, char** arguments) {
  char* path = arguments[1];
  fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  char* bytes = malloc(kBytes);
  memset(bytes, 'a', kBytes);
  write(fd, bytes, kBytes);
  free(bytes);
  early = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  early[5] = 'x';
  close(fd);
  pthread_barrier_init(&turn, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, other, NULL);
  fd = open(path, O_RDWR);
  late_private = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  late_shared = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  late_read = mmap(NULL, kBytes, PROT_READ, MAP_PRIVATE, fd, 0);
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  printf("main reads %c%c%c\n", early[6], late_private[11], late_shared[12]);
  early[2 << 20] = 'M';
  pthread_barrier_wait(&turn);
  pthread_join(thread, NULL);
  char in_file[16];
  pread(fd, in_file, sizeof in_file, 0);
  printf("file: %.16s\n", in_file);
  munmap(late_shared, kBytes);
  munmap(late_private, kBytes);
  munmap(early, kBytes);
  close(fd);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(13);
  int status = 0;
  waitpid(child, &status, 0);
  printf("forked after munmap: %d\n", WEXITSTATUS(status));
  stream = fopen(path, "w");
  pthread_t writers[4];
  static char* names[] = {"north", "east", "south", "west"};
  for (int i = 0; i < 4; ++i) pthread_create(&writers[i], NULL, writes, names[i]);
  for (int i = 0; i < 4; ++i) pthread_join(writers[i], NULL);
  fclose(stream);
  stream = fopen(path, "r");
  char line[64], seen[64];
  int good = 0, number;
  while (fgets(line, sizeof line, stream))
    good += sscanf(line, "%15s line %d", seen, &number) == 2 && strlen(line) < 20;
  printf("whole lines: %d\n", good);
  fclose(stream);
  unlink(path);
  return 0;
}
