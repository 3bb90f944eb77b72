// Everything of source/.
#pragma once

#include "mortise/source/brk_heap.hpp"
#include "mortise/source/malloc_heap.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/source/range_heap.hpp"
#include "mortise/source/shared_heap.hpp"
#include "mortise/source/static_heap.hpp"
