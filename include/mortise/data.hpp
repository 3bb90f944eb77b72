// Everything of data/.
#pragma once

#include "mortise/data/bitmap.hpp"
#include "mortise/data/hole_list.hpp"
#include "mortise/data/idle_numbers.hpp"
#include "mortise/data/links.hpp"
#include "mortise/data/list.hpp"
#include "mortise/data/log_histogram.hpp"
#include "mortise/data/meta_arena.hpp"
#include "mortise/data/preset.hpp"
#include "mortise/data/side_tables.hpp"
#include "mortise/data/strided.hpp"
#include "mortise/data/thread_list.hpp"
#include "mortise/data/treap.hpp"
#include "mortise/data/two_level_lists.hpp"
#include "mortise/data/waiting_batch.hpp"
