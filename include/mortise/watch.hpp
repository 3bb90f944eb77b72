// Everything of watch/.
#pragma once

#include "mortise/watch/annotated.hpp"
#include "mortise/watch/counters.hpp"
#include "mortise/watch/heap_profile.hpp"
#include "mortise/watch/latency.hpp"
#include "mortise/watch/sample_chunks.hpp"
#include "mortise/watch/sampled.hpp"
