// entries.cpp: which libc function is replaced by what. One line each; the files named for the idea hold the functions.
#include "entries.hpp"

#include <pthread.h>

#include "actions.hpp"
#include "barrier.hpp"
#include "cancel.hpp"
#include "cond.hpp"
#include "create.hpp"
#include "credentials.hpp"
#include "end.hpp"
#include "exec.hpp"
#include "fork.hpp"
#include "join.hpp"
#include "libc_locks.hpp"
#include "limits.hpp"
#include "loads.hpp"
#include "masks.hpp"
#include "memory.hpp"
#include "mutex.hpp"
#include "one_process.hpp"
#include "parents.hpp"
#include "patch.hpp"
#include "record_locks.hpp"
#include "region.hpp"
#include "rwlock.hpp"
#include "segments.hpp"
#include "semaphore.hpp"
#include "signal_wait.hpp"
#include "system_call.hpp"
#include "timed_calls.hpp"
#include "timers.hpp"
#include "transfers.hpp"
#include "wait.hpp"

extern "C" int mortise_isolate_once(pthread_once_t*, void (*)());

namespace mortise::isolate {
namespace {

template <class F>
void* at(F* function) noexcept {
  return reinterpret_cast<void*>(function);
}

const Replacement kEntries[] = {
    // threads
    {"pthread_create", at(&create_thread), true},
    {"pthread_join", at(&join_thread), true},
    {"pthread_tryjoin_np", at(&try_join_thread), false},
    {"pthread_timedjoin_np", at(&timed_join_thread), false},
    {"pthread_clockjoin_np", at(&clock_join_thread), false},
    {"thrd_join", at(&c11_join_thread), false},
    {"pthread_detach", at(&detach_thread), true},
    {"pthread_kill", at(&signal_thread), true},
    {"pthread_kill", at(&signal_thread_or_tell), false, "GLIBC_2.2.5"},
    {"pthread_sigmask", at(&change_signal_mask), true},
    {"sigprocmask", at(&change_process_signal_mask), true},
    {"pthread_sigqueue", at(&queue_signal_to_thread), false},
    {"pthread_getattr_np", at(&thread_attributes), false},
    {"pthread_getcpuclockid", at(&thread_cpu_clock), false},
    {"pthread_setname_np", at(&set_thread_name), false},
    {"pthread_getname_np", at(&get_thread_name), false},
    {"raise", at(&raise_signal), true},
    {"tgkill", at(&signal_thread_by_id), false},
    {"_exit", at(&end_process), true},
    {"getpid", at(&program_process), true},
    {"getppid", at(&parent_process), true},
    {"pthread_cancel", at(&cancel_thread), true},
    {"sigaction", at(&exchange_action), true},
    {"sigtimedwait", at(&timed_wait_signal), true},
    {"sigwaitinfo", at(&wait_signal_info), true},
    {"sigwait", at(&wait_signal), true},
    {"_Fork", at(&fork_process), true},
    {"wait4", at(&wait_for_child), true},
    {"waitid", at(&wait_for_id), true},
    {"execve", at(&execute), true},
    {"execveat", at(&execute_at), false},
    {"fexecve", at(&execute_descriptor), false},
    // credentials
    {"setuid", at(&set_uid), true},
    {"setgid", at(&set_gid), true},
    {"setreuid", at(&set_reuid), true},
    {"setregid", at(&set_regid), true},
    {"setresuid", at(&set_resuid), true},
    {"setresgid", at(&set_resgid), true},
    {"seteuid", at(&set_euid), true},
    {"setegid", at(&set_egid), true},
    {"setgroups", at(&set_groups), true},
    {"prctl", at(&control_process), false},
    {"setsid", at(&new_session), true},
    {"setpgid", at(&set_process_group), true},
    {"setrlimit", at(&set_limit), true},
    {"prlimit", at(&exchange_limit), false},
    // mutexes
    {"pthread_mutex_lock", at(&lock_mutex), true},
    {"pthread_mutex_trylock", at(&try_lock_mutex), true},
    {"pthread_mutex_timedlock", at(&timed_lock_mutex), true},
    {"pthread_mutex_clocklock", at(&clock_lock_mutex), false},
    {"pthread_mutex_unlock", at(&unlock_mutex), true},
    // condition variables
    {"pthread_cond_wait", at(&wait_cond), true},
    {"pthread_cond_timedwait", at(&timed_wait_cond), true},
    {"pthread_cond_clockwait", at(&clock_wait_cond), false},
    {"pthread_cond_signal", at(&signal_cond), true},
    {"pthread_cond_broadcast", at(&broadcast_cond), true},
    {"pthread_cond_destroy", at(&destroy_cond), true},
    // read-write locks
    {"pthread_rwlock_rdlock", at(&read_lock), true},
    {"pthread_rwlock_tryrdlock", at(&try_read_lock), true},
    {"pthread_rwlock_timedrdlock", at(&timed_read_lock), true},
    {"pthread_rwlock_clockrdlock", at(&clock_read_lock), false},
    {"pthread_rwlock_wrlock", at(&write_lock), true},
    {"pthread_rwlock_trywrlock", at(&try_write_lock), true},
    {"pthread_rwlock_timedwrlock", at(&timed_write_lock), true},
    {"pthread_rwlock_clockwrlock", at(&clock_write_lock), false},
    {"pthread_rwlock_unlock", at(&unlock_rwlock), true},
    // barriers, semaphores, once
    {"pthread_barrier_wait", at(&wait_at_barrier), true},
    {"pthread_barrier_destroy", at(&destroy_barrier), true},
    {"sem_wait", at(&wait_semaphore), true},
    {"sem_trywait", at(&try_wait_semaphore), true},
    {"sem_timedwait", at(&timed_wait_semaphore), true},
    {"sem_clockwait", at(&clock_wait_semaphore), false},
    {"sem_post", at(&post_semaphore), true},
    {"pthread_once", at(&mortise_isolate_once), true},
    // memory
    {"mmap", at(&map_memory), true},
    {"munmap", at(&unmap_memory), true},
    {"mprotect", at(&protect_memory), true},
    {"madvise", at(&advise_memory), true},
    {"mremap", at(&remap_memory), true},
    {"shmat", at(&attach_segment), true},
    {"shmdt", at(&detach_segment), true},
    {"mlockall", at(&lock_all_memory), false},
    {"brk", at(&set_break), true},
    {"sbrk", at(&move_break), true},
    // the loader
    {"_dl_debug_state", at(&follow_loader), false},
    // timers
    {"timer_create", at(&create_timer), false},
    {"timer_settime", at(&set_timer), false},
    {"timer_gettime", at(&get_timer), false},
    {"timer_getoverrun", at(&timer_overrun), false},
    {"timer_delete", at(&delete_timer), false},
    {"setitimer", at(&set_interval_timer), true},
    {"getitimer", at(&get_interval_timer), true},
    {"alarm", at(&set_alarm), true},
    // waiting for a time
    {"poll", at(&poll_descriptors), true},
    {"ppoll", at(&poll_descriptors_masked), true},
    {"select", at(&select_descriptors), true},
    {"pselect", at(&select_descriptors_masked), true},
    {"sigsuspend", at(&wait_with_mask), true},
    {"epoll_wait", at(&wait_for_events), true},
    {"epoll_pwait", at(&wait_for_events_masked), true},
    {"clock_nanosleep", at(&sleep_on_clock), true},
    // files
    {"read", at(&read_file), true},
    {"pread64", at(&read_file_at), true},
    {"readv", at(&read_pieces), true},
    {"preadv64", at(&read_pieces_at), true},
    {"preadv64v2", at(&read_pieces_with), false},
    {"write", at(&write_file), true},
    {"pwrite64", at(&write_file_at), true},
    {"writev", at(&write_pieces), true},
    {"pwritev64", at(&write_pieces_at), true},
    {"pwritev64v2", at(&write_pieces_with), false},
    {"recv", at(&receive), true},
    {"recvfrom", at(&receive_from), true},
    {"recvmsg", at(&receive_message), true},
    {"send", at(&send_bytes), true},
    {"sendto", at(&send_bytes_to), true},
    {"sendmsg", at(&send_message), true},
    {"fcntl", at(&control_file), true},
    {"fcntl64", at(&control_file), false},
    // libc's own locks, and system calls made through libc
    {"__lll_lock_wait_private", at(&libc_lock_wait), true},
    {"__lll_lock_wake_private", at(&libc_lock_wake), true},
    {"syscall", at(&system_call), true},
};

}  // namespace

bool entries_known(const char*& culprit) noexcept {
  return can_replace(kEntries, sizeof kEntries / sizeof kEntries[0], culprit);
}

bool replace_entries(const char*& culprit) noexcept {
  return replace_all(kEntries, sizeof kEntries / sizeof kEntries[0], culprit);
}

}  // namespace mortise::isolate
