// Everything of os/.
#pragma once

#include "mortise/os/brk.hpp"
#include "mortise/os/clock.hpp"
#include "mortise/os/console.hpp"
#include "mortise/os/control_group.hpp"
#include "mortise/os/cpus.hpp"
#include "mortise/os/entropy.hpp"
#include "mortise/os/facts.hpp"
#include "mortise/os/futex.hpp"
#include "mortise/os/guards.hpp"
#include "mortise/os/isolation.hpp"
#include "mortise/os/pages.hpp"
#include "mortise/os/print_and_abort.hpp"
#include "mortise/os/rseq.hpp"
#include "mortise/os/syscall.hpp"
#include "mortise/os/unwind.hpp"
#include "mortise/os/window.hpp"
