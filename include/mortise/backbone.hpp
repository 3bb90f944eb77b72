// Everything of backbone/.
#pragma once

#include "mortise/backbone/boundary_tag.hpp"
#include "mortise/backbone/buddy.hpp"
#include "mortise/backbone/segregated_fit.hpp"
#include "mortise/backbone/slab.hpp"
#include "mortise/backbone/slab_bits.hpp"
#include "mortise/backbone/slab_geometry.hpp"
#include "mortise/backbone/sub_heaps.hpp"
#include "mortise/backbone/tlsf.hpp"
#include "mortise/backbone/wait_free_departures.hpp"
#include "mortise/backbone/wait_free_hints.hpp"
#include "mortise/backbone/wait_free_slab.hpp"
#include "mortise/backbone/wait_free_slot.hpp"
#include "mortise/backbone/wait_free_slots.hpp"
#include "mortise/backbone/wait_free_span.hpp"
#include "mortise/backbone/wait_free_usage.hpp"
