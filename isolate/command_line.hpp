// command_line.hpp: what the kernel shows of the program's arguments.
#pragma once

namespace mortise::isolate {

/// Has /proc/PID/cmdline and environ, and so ps and pgrep, show what they show now, in all threads' processes: the kernel shows nothing
/// of shared memory. What the program writes over its arguments afterwards is not seen.
void keep_command_line() noexcept;

}  // namespace mortise::isolate
