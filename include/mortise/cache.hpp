// Everything of cache/.
#pragma once

#include "mortise/cache/batched_free.hpp"
#include "mortise/cache/core_cache.hpp"
#include "mortise/cache/core_set.hpp"
#include "mortise/cache/elimination_array.hpp"
#include "mortise/cache/huge_advice.hpp"
#include "mortise/cache/magazine_slots.hpp"
#include "mortise/cache/map_cache.hpp"
#include "mortise/cache/slab_array_cache.hpp"
#include "mortise/cache/span_bins.hpp"
#include "mortise/cache/span_cache.hpp"
#include "mortise/cache/span_reserve.hpp"
#include "mortise/cache/span_tails.hpp"
#include "mortise/cache/swing.hpp"
#include "mortise/cache/thread_cache.hpp"
