// Everything of route/.
#pragma once

#include "mortise/route/affinity_pools.hpp"
#include "mortise/route/bypass.hpp"
#include "mortise/route/bypass_for.hpp"
#include "mortise/route/call_chain.hpp"
#include "mortise/route/fallback.hpp"
#include "mortise/route/mixed_pool.hpp"
#include "mortise/route/per_node.hpp"
#include "mortise/route/pool_heads.hpp"
#include "mortise/route/pool_range.hpp"
#include "mortise/route/pool_segment.hpp"
#include "mortise/route/segregate.hpp"
#include "mortise/route/size_gate.hpp"
#include "mortise/route/two_heaps.hpp"
