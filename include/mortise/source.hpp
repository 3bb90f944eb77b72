// Everything of source/.
#pragma once

#include "mortise/source/brk_heap.hpp"
#include "mortise/source/callback_heap.hpp"
#include "mortise/source/huge_page_heap.hpp"
#include "mortise/source/malloc_heap.hpp"
#include "mortise/source/mmap_heap.hpp"
#include "mortise/source/range_heap.hpp"
#include "mortise/source/shared_heap.hpp"
#include "mortise/source/static_heap.hpp"
#include "mortise/source/window_source.hpp"
