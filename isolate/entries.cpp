// entries.cpp: which libc function is replaced by what. One line each; the files named for the idea hold the functions.
#include "entries.hpp"

#include <pthread.h>

#include "actions.hpp"
#include "attributes.hpp"
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
#include "remap.hpp"
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

// No function: the table is there before any constructor has run, and one that runs earlier may make a thread.
#define AT(function) reinterpret_cast<void*>(&function)

const Replacement kEntries[] = {
    // threads
    {"pthread_create", AT(create_thread), true},
    {"pthread_join", AT(join_thread), true},
    {"pthread_tryjoin_np", AT(try_join_thread), false},
    {"pthread_timedjoin_np", AT(timed_join_thread), false},
    {"pthread_clockjoin_np", AT(clock_join_thread), false},
    {"thrd_join", AT(c11_join_thread), false},
    {"pthread_detach", AT(detach_thread), true},
    {"pthread_kill", AT(signal_thread), true},
    {"pthread_kill", AT(signal_thread_or_tell), false, "GLIBC_2.2.5"},
    {"pthread_sigmask", AT(change_signal_mask), true},
    {"sigprocmask", AT(change_process_signal_mask), true},
    {"pthread_sigqueue", AT(queue_signal_to_thread), false},
    {"pthread_getattr_np", AT(thread_attributes), false},
    {"pthread_getcpuclockid", AT(thread_cpu_clock), false},
    {"pthread_setname_np", AT(set_thread_name), false},
    {"pthread_getname_np", AT(get_thread_name), false},
    {"raise", AT(raise_signal), true},
    {"kill", AT(signal_process), true},
    {"sigqueue", AT(queue_signal_to_process), false},
    {"tgkill", AT(signal_thread_by_id), false},
    {"_exit", AT(end_process), true},
    {"getpid", AT(program_process), true},
    {"getppid", AT(parent_process), true},
    {"pthread_cancel", AT(cancel_thread), true},
    {"sigaction", AT(exchange_action), true},
    {"sigtimedwait", AT(timed_wait_signal), true},
    {"sigwaitinfo", AT(wait_signal_info), true},
    {"sigwait", AT(wait_signal), true},
    {"_Fork", AT(fork_process), true},
    {"wait4", AT(wait_for_child), true},
    {"waitid", AT(wait_for_id), true},
    {"execve", AT(execute), true},
    {"execveat", AT(execute_at), false},
    {"fexecve", AT(execute_descriptor), false},
    // credentials
    {"setuid", AT(set_uid), true},
    {"setgid", AT(set_gid), true},
    {"setreuid", AT(set_reuid), true},
    {"setregid", AT(set_regid), true},
    {"setresuid", AT(set_resuid), true},
    {"setresgid", AT(set_resgid), true},
    {"seteuid", AT(set_euid), true},
    {"setegid", AT(set_egid), true},
    {"setgroups", AT(set_groups), true},
    {"setfsuid", AT(set_fsuid), false},
    {"setfsgid", AT(set_fsgid), false},
    {"prctl", AT(control_process), false},
    {"setsid", AT(new_session), true},
    {"setpgid", AT(set_process_group), true},
    {"setrlimit", AT(set_limit), true},
    {"prlimit", AT(exchange_limit), false},
    // mutexes
    {"pthread_mutex_lock", AT(lock_mutex), true},
    {"pthread_mutex_trylock", AT(try_lock_mutex), true},
    {"pthread_mutex_timedlock", AT(timed_lock_mutex), true},
    {"pthread_mutex_clocklock", AT(clock_lock_mutex), false},
    {"pthread_mutex_unlock", AT(unlock_mutex), true},
    // condition variables
    {"pthread_cond_wait", AT(wait_cond), true},
    {"pthread_cond_timedwait", AT(timed_wait_cond), true},
    {"pthread_cond_clockwait", AT(clock_wait_cond), false},
    {"pthread_cond_signal", AT(signal_cond), true},
    {"pthread_cond_broadcast", AT(broadcast_cond), true},
    {"pthread_cond_destroy", AT(destroy_cond), true},
    // read-write locks
    {"pthread_rwlock_rdlock", AT(read_lock), true},
    {"pthread_rwlock_tryrdlock", AT(try_read_lock), true},
    {"pthread_rwlock_timedrdlock", AT(timed_read_lock), true},
    {"pthread_rwlock_clockrdlock", AT(clock_read_lock), false},
    {"pthread_rwlock_wrlock", AT(write_lock), true},
    {"pthread_rwlock_trywrlock", AT(try_write_lock), true},
    {"pthread_rwlock_timedwrlock", AT(timed_write_lock), true},
    {"pthread_rwlock_clockwrlock", AT(clock_write_lock), false},
    {"pthread_rwlock_unlock", AT(unlock_rwlock), true},
    // barriers, semaphores, once
    {"pthread_barrier_wait", AT(wait_at_barrier), true},
    {"pthread_barrier_destroy", AT(destroy_barrier), true},
    {"sem_wait", AT(wait_semaphore), true},
    {"sem_trywait", AT(try_wait_semaphore), true},
    {"sem_timedwait", AT(timed_wait_semaphore), true},
    {"sem_clockwait", AT(clock_wait_semaphore), false},
    {"sem_post", AT(post_semaphore), true},
    {"pthread_once", AT(mortise_isolate_once), true},
    // memory
    {"mmap", AT(map_memory), true},
    {"munmap", AT(unmap_memory), true},
    {"mprotect", AT(protect_memory), true},
    {"madvise", AT(advise_memory), true},
    {"mremap", AT(remap_memory), true},
    {"shmat", AT(attach_segment), true},
    {"shmdt", AT(detach_segment), true},
    {"mlockall", AT(lock_all_memory), false},
    {"brk", AT(set_break), true},
    {"sbrk", AT(move_break), true},
    {"pkey_alloc", AT(allocate_key), false},
    // the loader
    {"_dl_debug_state", AT(follow_loader), false},
    // timers
    {"timer_create", AT(create_timer), false},
    {"timer_settime", AT(set_timer), false},
    {"timer_gettime", AT(get_timer), false},
    {"timer_getoverrun", AT(timer_overrun), false},
    {"timer_delete", AT(delete_timer), false},
    {"setitimer", AT(set_interval_timer), true},
    {"getitimer", AT(get_interval_timer), true},
    {"alarm", AT(set_alarm), true},
    // waiting for a time
    {"poll", AT(poll_descriptors), true},
    {"ppoll", AT(poll_descriptors_masked), true},
    {"select", AT(select_descriptors), true},
    {"pselect", AT(select_descriptors_masked), true},
    {"sigsuspend", AT(wait_with_mask), true},
    {"epoll_wait", AT(wait_for_events), true},
    {"epoll_pwait", AT(wait_for_events_masked), true},
    {"clock_nanosleep", AT(sleep_on_clock), true},
    // files
    {"read", AT(read_file), true},
    {"pread64", AT(read_file_at), true},
    {"readv", AT(read_pieces), true},
    {"preadv64", AT(read_pieces_at), true},
    {"preadv64v2", AT(read_pieces_with), false},
    {"write", AT(write_file), true},
    {"pwrite64", AT(write_file_at), true},
    {"writev", AT(write_pieces), true},
    {"pwritev64", AT(write_pieces_at), true},
    {"pwritev64v2", AT(write_pieces_with), false},
    {"recv", AT(receive), true},
    {"recvfrom", AT(receive_from), true},
    {"recvmsg", AT(receive_message), true},
    {"send", AT(send_bytes), true},
    {"sendto", AT(send_bytes_to), true},
    {"sendmsg", AT(send_message), true},
    {"fcntl", AT(control_file), true},
    {"fcntl64", AT(control_file), false},
    // libc's own locks, and system calls made through libc
    {"__lll_lock_wait_private", AT(libc_lock_wait), true},
    {"__lll_lock_wake_private", AT(libc_lock_wake), true},
    {"syscall", AT(system_call), true},
};

}  // namespace

bool entries_known(const char*& culprit) noexcept {
  return can_replace(kEntries, sizeof kEntries / sizeof kEntries[0], culprit);
}

bool replace_entries(const char*& culprit) noexcept {
  return replace_all(kEntries, sizeof kEntries / sizeof kEntries[0], culprit);
}

}  // namespace mortise::isolate
