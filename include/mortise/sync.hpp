// Everything of sync/.
#pragma once

#include "mortise/sync/atomics.hpp"
#include "mortise/sync/combining_lock.hpp"
#include "mortise/sync/flat_combining_lock.hpp"
#include "mortise/sync/free_link.hpp"
#include "mortise/sync/futex_lock.hpp"
#include "mortise/sync/lock_free_bin.hpp"
#include "mortise/sync/locked.hpp"
#include "mortise/sync/locked_bin.hpp"
#include "mortise/sync/mcs_lock.hpp"
#include "mortise/sync/mpsc_queue.hpp"
#include "mortise/sync/spin_lock.hpp"
#include "mortise/sync/sync.hpp"
#include "mortise/sync/ticket_lock.hpp"
#include "mortise/sync/unsynchronised.hpp"
#include "mortise/sync/wait_free_bin.hpp"
#include "mortise/sync/wait_free_pool.hpp"
