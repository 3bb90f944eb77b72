// Object pools for any number of threads. docs/pools.md tells which of them is for what.
#pragma once

#include "mortise/pool/array_of_pools.hpp"
#include "mortise/pool/distributed_pool.hpp"
#include "mortise/pool/memory_resource.hpp"
#include "mortise/pool/views.hpp"
