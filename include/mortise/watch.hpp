// Everything of watch/.
#pragma once

#include "mortise/watch/counters.hpp"
#include "mortise/watch/latency.hpp"
