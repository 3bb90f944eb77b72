// A thread that ends in a handler on its alternate stack, by pthread_exit or cancelled: everything on both stacks is taken down.
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

struct Says {
  const char* text;
  ~Says() { std::printf("%s ", text); }
};

static sem_t handling;
static bool exits;

static void on_signal(int) {
  Says inner{"handler"};
  if (exits) pthread_exit(nullptr);
  sem_post(&handling);
  for (;;) pause();
}

int (*volatile send_signal)(pthread_t, int) = pthread_kill;  // by its own name it is one that never throws

static void __attribute__((noinline)) raise_it() {
  Says middle{"function"};
  send_signal(pthread_self(), SIGUSR1);
}

static void* run(void* where) {
  Says outer{"thread"};
  const stack_t own{where, 0, 64 << 10};
  sigaltstack(&own, nullptr);
  raise_it();
  return nullptr;
}

int main() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  sem_init(&handling, 0, 0);
  const std::size_t bytes = 64 << 10;
  for (int above = 0; above < 2; ++above)
    for (int round = 0; round < 2; ++round) {
      // Below any stack, and above.
      void* const wanted = reinterpret_cast<void*>(above ? 0x7d0000000000 : 0x100000000);
      void* const where = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      exits = round == 0;
      pthread_t thread;
      pthread_create(&thread, nullptr, run, where);
      if (!exits) sem_wait(&handling), pthread_cancel(thread);
      void* result;
      pthread_join(thread, &result);
      std::printf("cancelled %d\n", result == PTHREAD_CANCELED);
      munmap(where, bytes);
    }
}
