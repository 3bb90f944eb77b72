// Waits until the kernel gives the program no orphans any more. A thread that was joined may still be leaving, and who takes in its children
// takes in a daemon's as well. prctl() answers for the program; this asks the kernel.
#include <linux/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wait_until_it_takes_in_none(void) {
  for (int takes_in = 1;; usleep(1000)) {
    long result = SYS_prctl;
    __asm__ volatile("syscall" : "+a"(result) : "D"((long)PR_GET_CHILD_SUBREAPER), "S"(&takes_in) : "rcx", "r11", "memory");
    if (result != 0 || takes_in == 0) return;
  }
}
