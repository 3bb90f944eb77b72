// What an idle program keeps: sleeper idle (memory falls while it sleeps, and no thread stays), sleeper locked (memory
// that is locked is never taken for clean), sleeper guarded (the kernel refuses the calls that move, purge and start),
// sleeper crowded (a limit on processes refuses threads, and is lifted), sleeper vforks (children of vfork allocate),
// sleeper filtered CALL (a filter ends the thread that makes this call), sleeper trapped (a handler of the program answers
// clone), sleeper shut_in (a filter ends whoever makes a thread), sleeper unshares (goes to another user namespace), sleeper
// stays (fails to shut itself in, and goes where it may with threads), sleeper namesake (a child with the number of its
// parent, which is 1), sleeper parts (leaves a directory and a semaphore behind), sleeper forks_amid (a handler forks while the
// thread is sent away), sleeper two_alone (two send it away at once), sleeper many_cpus COMMAND... (runs a command that is told,
// as on a machine of more than 1024 CPUs, that a mask of 1024 is too short).
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#include <atomic>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "life.hpp"

namespace {

using life::kMiB;

thread_local char large_thread_local_memory[200'000];  // the purge thread has none of this

void fill_and_free(std::size_t size, std::size_t total) {
  std::vector<void*> held(total / size);
  for (void*& p : held) memset(p = malloc(size), 0xab, size);
  for (void* p : held) free(p);
}

int idle() {
  large_thread_local_memory[7] = 1;
  const unsigned threads = life::threads();
  for (const std::size_t size : {std::size_t{200}, std::size_t{20'000}, 8 * kMiB}) {
    const std::size_t before = life::resident();
    fill_and_free(size, 64 * kMiB);
    EXPECT(life::wait_for([&] { return life::resident() < before + 12 * kMiB; }));
    EXPECT(life::wait_for([&] { return life::threads() == threads; }));
    printf("%zu: %zu KiB before, %zu after\n", size, before >> 10, life::resident() >> 10);
  }
  return 0;
}

/// Memory goes back in sleep once the limit is lifted, though a thread was refused before.
int crowded() {
  if (getuid() == 0) EXPECT(setuid(65534) == 0);  // root may always start one
  rlimit limit{};
  EXPECT(getrlimit(RLIMIT_NPROC, &limit) == 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  EXPECT(setrlimit(RLIMIT_NPROC, &none) == 0);
  const std::size_t before = life::resident();
  fill_and_free(20'000, 64 * kMiB);
  EXPECT(life::threads() == 1);
  EXPECT(setrlimit(RLIMIT_NPROC, &limit) == 0);
  EXPECT(life::wait_for([&] { return fill_and_free(20'000, 64 * kMiB), life::threads() == 2; }));
  EXPECT(life::wait_for([&] { return life::resident() < before + 12 * kMiB; }));
  return 0;
}

/// A child of vfork lives in its parent's memory: what it frees there may not keep the parent from giving memory back.
int vforks() {
  const std::size_t before = life::resident();
  for (int i = 0; i < 3; ++i) {
    const pid_t child = vfork();
    EXPECT(child >= 0);
    if (child == 0) {
      fill_and_free(20'000, 64 * kMiB);
      const unsigned threads = life::threads();
      if (threads != 1) _exit(1);
      execl("/bin/true", "true", nullptr);
      _exit(1);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    fill_and_free(20'000, 64 * kMiB);
    EXPECT(life::wait_for([&] { return life::resident() < before + 12 * kMiB; }));
    EXPECT(life::wait_for([&] { return life::threads() == 1; }));
  }
  return 0;
}

int locked() {
  const bool all = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  if (!all) {  // not allowed to lock everything: a piece of a block will do
    auto* p = static_cast<unsigned char*>(malloc(8 * kMiB));
    memset(p, 0xcd, 8 * kMiB);
    EXPECT(mlock(p + kMiB, 16384) == 0);
    free(p);
  }
  fill_and_free(kMiB, 16 * kMiB);
  malloc_trim(0);
  usleep(300'000);  // the purge thread has had its turn, or has not: neither may show
  for (int i = 0; i < 10; ++i) {
    auto* p = static_cast<unsigned char*>(calloc(1, 2 * kMiB));
    EXPECT(p && life::is_zero(p, 2 * kMiB));
    memset(p, 0xee, 2 * kMiB);
    p = static_cast<unsigned char*>(realloc(p, 3 * kMiB));
    EXPECT(p && p[0] == 0xee && p[2 * kMiB - 1] == 0xee);
    free(p);
  }
  life::Churn churn(5);
  churn.steps(5000);
  churn.end();
  printf("%s\n", all ? "all locked" : "a piece locked");
  return 0;
}

/// As prctl, but nobody who stands in front of libc hears of it.
int prctl_unseen(int option, unsigned long second, unsigned long third) {
  return static_cast<int>(syscall(SYS_prctl, option, second, third, 0UL, 0UL));
}
int prctl_seen(int option, unsigned long second, unsigned long third) { return prctl(option, second, third, 0UL, 0UL); }

/// These calls fail from now on, as in a strict sandbox, or whatever else is to be done with them. Without the heap.
void refuse(std::initializer_list<unsigned> calls, unsigned action = SECCOMP_RET_ERRNO | EPERM, decltype(prctl_seen) call = prctl_unseen) {
  sock_filter code[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
  unsigned short length = 1;
  for (unsigned nr : calls) {
    code[length++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
    code[length++] = BPF_STMT(BPF_RET | BPF_K, action);
  }
  code[length++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_fprog program{length, code};
  EXPECT(call(PR_SET_NO_NEW_PRIVS, 1, 0) == 0);
  EXPECT(call(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, reinterpret_cast<unsigned long>(&program)) == 0);
}

int guarded() {
  refuse({SYS_mremap, SYS_madvise, SYS_clone, SYS_membarrier, SYS_sched_getaffinity});
  for (int i = 0; i < 20; ++i) {
    auto* p = static_cast<unsigned char*>(malloc(kMiB));
    memset(p, 0x77, kMiB);
    p = static_cast<unsigned char*>(realloc(p, 40 * kMiB));
    EXPECT(p && p[0] == 0x77 && p[kMiB - 1] == 0x77);
    p[40 * kMiB - 1] = 1;
    free(p);
    auto* z = static_cast<unsigned char*>(calloc(1, 20 * kMiB));
    EXPECT(life::is_zero(z, 20 * kMiB));
    memset(z, 1, 20 * kMiB);
    free(z);
    malloc_trim(0);
  }
  life::Churn churn(6);
  churn.steps(20'000);
  churn.end();
  return 0;
}

/// The thread that gives memory back is ended for the call, which the program does not make. It notices when it goes on. A program that is
/// too small for huge pages makes no madvise either, nor may it for what it frees. Others have blocks that are spans of their own: without
/// membarrier the caches keep some of smaller ones, wherever those lie, and what is free beside them stays.
int filtered(const std::string& call) {
  const unsigned nr = call == "prctl" ? SYS_prctl : call == "membarrier" ? SYS_membarrier : call == "futex" ? SYS_futex : SYS_madvise;
  fill_and_free(20'000, kMiB / 2);
  const bool is_small = nr == SYS_madvise;
  const std::size_t before = life::resident(), size = is_small ? 20'000 : 300'000, total = (is_small ? 4 : 64) * kMiB;
  refuse({nr}, SECCOMP_RET_KILL_THREAD);
  for (int round = 0; round < 3; ++round) {
    fill_and_free(size, total);
    EXPECT(life::wait_for([] { return life::threads() == 1; }));  // its work is done, or it was ended
  }
  printf("%zu KiB before, %zu after\n", before >> 10, life::resident() >> 10);
  EXPECT(life::resident() < before + 24 * kMiB);
  return 0;
}

/// A sandbox that answers some calls itself. Blocked amid one, its signal would end the process.
int trapped() {
  static volatile int answered = 0;
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t*, void* context) {
    answered = answered + 1;
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#ifdef __x86_64__
    registers.gregs[REG_RAX] = -EPERM;
#else
    registers.regs[0] = static_cast<unsigned long>(-EPERM);
#endif
  };
  EXPECT(sigaction(SIGSYS, &action, nullptr) == 0);
  refuse({SYS_clone}, SECCOMP_RET_TRAP);
  const std::size_t before = life::resident();
  fill_and_free(20'000, 64 * kMiB);
  EXPECT(answered > 0 && life::threads() == 1);
  malloc_trim(0);
  EXPECT(life::resident() < before + 12 * kMiB);
  return 0;
}

/// The thread that gives memory back is there.
void call_thread() {
  EXPECT(life::wait_for([] { return fill_and_free(20'000, 8 * kMiB), life::threads() == 2; }));
}

/// Whoever may make no thread, on pain of death, has none from before either. Memory goes back when the program misses.
int shut_in() {
  std::vector<void*> held(400);
  for (void*& p : held) memset(p = malloc(20'000), 0xab, 20'000);
  const std::size_t before = life::resident();
  call_thread();
  refuse({SYS_clone, SYS_clone3}, SECCOMP_RET_KILL_PROCESS, prctl_seen);
  EXPECT(life::threads() == 1);
  for (int round = 0; round < 3; ++round) {
    fill_and_free(20'000, 64 * kMiB);
    const auto goes_on = [&] {
      if (held.empty()) return false;
      free(held.back());
      held.pop_back();
      return true;
    };
    EXPECT(life::wait_for([&] { return !goes_on() || life::resident() < before + 16 * kMiB; }) && !held.empty());
  }
  EXPECT(life::threads() == 1);
  return 0;
}

/// The kernel gives a user namespace to a program without threads only. Afterwards the thread comes as before.
int unshares() {
  call_thread();
  EXPECT(unshare(CLONE_NEWUSER) == 0 || errno == EPERM || errno == ENOSPC);
  call_thread();
  const int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
  EXPECT(own >= 0 && setns(own, CLONE_NEWUTS) == -1 && errno == EINVAL);  // the wrong kind
  errno = 0;
  EXPECT(setns(own, CLONE_NEWUSER) == -1 && errno == EINVAL);             // where one is already
  call_thread();
  int ends[2];
  EXPECT(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 && unshare(CLONE_FILES) == 0 && close(ends[1]) == 0);
  char byte;
  EXPECT(read(ends[0], &byte, 1) == 0);  // nobody else has the other end
  return 0;
}

/// Whoever only tried to shut himself in, or goes where one may go with threads, sleeps as before. The latter is nothing for the thread: the
/// calls that would send it away are not made, be they forbidden on pain of death.
int stays() {
  const int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
  const auto sleeps_after = [](auto&& call, bool always = false) {
    const std::size_t before = life::resident();
    fill_and_free(20'000, 64 * kMiB);
    EXPECT(call());
    // While it is sent away again and again it gives back what is free; what lies in caches is for a program that rests.
    if (always) EXPECT(life::wait_for([&] { return !call() || life::resident() < before + 48 * kMiB; }));
    EXPECT(life::wait_for([&] { return life::resident() < before + 12 * kMiB; }));
  };
  sleeps_after([] { return unshare(0) == 0; });
  sleeps_after([] { return unshare(CLONE_FS) == 0; });
  sleeps_after([] { return unshare(CLONE_FILES) == 0; });
  sleeps_after([] { return setns(-1, 0) == -1 && errno == EBADF; });
  sleeps_after([=] { return setns(own, CLONE_NEWUSER) == -1 && errno == EINVAL; });
  sleeps_after([=] { return setns(own, CLONE_NEWUSER) == -1 && errno == EINVAL; }, true);  // before the thread has slept for once
  sleeps_after([] { return prctl_seen(PR_SET_SECCOMP, 99, 0) == -1 && errno == EINVAL; });
  call_thread();
  refuse({SYS_getpid, SYS_tgkill}, SECCOMP_RET_KILL_PROCESS);
  EXPECT(unshare(0) == 0 && setns(-1, 0) == -1 && errno == EBADF);
  return 0;
}

/// A child that libc has not made, with its parent's number in a namespace of its own, does not wait for its parent's thread: it sleeps on
/// pain of death.
int namesake() {
  EXPECT(getpid() == 1);
  call_thread();
  const long child = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0L, 0L, 0L, 0L);
  EXPECT(child >= 0);
  if (child == 0) {
    refuse({SYS_futex}, SECCOMP_RET_KILL_PROCESS);
    EXPECT(getpid() == 1 && prctl_seen(PR_SET_SECCOMP, 99, 0) == -1 && errno == EINVAL);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(static_cast<pid_t>(child), &status, 0) == child && status == 0);
  return 0;
}

/// What the thread shared it does not hold on to: no directory stays busy, and a semaphore is given back at once.
int parts() {
  const int own = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC), semaphore = semget(IPC_PRIVATE, 1, 0600);
  EXPECT(own >= 0 && semaphore >= 0);
  const auto leave_directory = [](int flag) {
    EXPECT(chdir("/proc") == 0);
    call_thread();
    EXPECT(unshare(flag) == 0 && chdir("/") == 0);
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::error_code has_ended;
      const auto place = std::filesystem::read_symlink(thread.path() / "cwd", has_ended);
      EXPECT(has_ended || place == "/");
    }
  };
  const auto leave_semaphore = [=](auto&& call) {
    sembuf up{.sem_num = 0, .sem_op = 1, .sem_flg = SEM_UNDO};
    call_thread();
    EXPECT(semop(semaphore, &up, 1) == 0 && call() && setns(own, CLONE_NEWIPC) == 0);
    EXPECT(semctl(semaphore, 0, GETVAL) == 0);
  };
  leave_directory(CLONE_FS);
  leave_directory(CLONE_NEWNS);
  leave_semaphore([] { return unshare(CLONE_NEWIPC) == 0; });
  leave_semaphore([=] { return setns(own, CLONE_NEWIPC) == 0; });
  leave_semaphore([=] { return setns(own, 0) == 0; });
  return semctl(semaphore, 0, IPC_RMID);
}

/// The child of a handler that came while the thread was sent away goes on in the midst of that, and has a thread later.
int forks_amid() {
  static volatile pid_t child;
  signal(SIGALRM, [](int) { child = fork(); });
  for (int i = 0; i < 20; ++i) {
    call_thread();
    child = -1;
    const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 20 + 10 * i}};
    EXPECT(setitimer(ITIMER_REAL, &soon, nullptr) == 0);
    EXPECT(prctl_seen(PR_SET_SECCOMP, 99, 0) == -1);
    EXPECT(life::wait_for([] { return child != -1; }));
    if (child == 0) {
      call_thread();
      _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
  return 0;
}

/// Whichever of them is the last has it come again, also where it is there for ever.
int two_alone() {
  EXPECT(life::wait_for([] { return life::threads() == 2; }));
  for (int i = 0; i < 300; ++i) {
    const auto be_alone = [] { EXPECT(prctl_seen(PR_SET_SECCOMP, 99, 0) == -1); };
    std::atomic<bool> has_begun{false};
    std::thread other([&] { has_begun = true, be_alone(); });
    while (!has_begun) {}
    usleep(static_cast<unsigned>(i % 30 * 10));
    be_alone();
    other.join();
    EXPECT(life::wait_for([] { return life::threads() == 2; }));
  }
  return 0;
}

int many_cpus(char** command) {
  refuse({SYS_sched_getaffinity}, SECCOMP_RET_ERRNO | EINVAL);
  execv(command[0], command);
  return 1;
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1] ? argv[1] : "";
  return what == "idle" ? idle() : what == "locked" ? locked() : what == "guarded" ? guarded()
         : what == "crowded" ? crowded() : what == "vforks" ? vforks() : what == "filtered" ? filtered(argv[2] ? argv[2] : "")
         : what == "trapped" ? trapped() : what == "shut_in" ? shut_in() : what == "unshares" ? unshares()
         : what == "stays" ? stays() : what == "namesake" ? namesake() : what == "parts" ? parts() : what == "forks_amid" ? forks_amid()
         : what == "two_alone" ? two_alone() : what == "many_cpus" ? many_cpus(argv + 2) : 2;
}
