// Everything of which stacks are made.
#pragma once

#include "mortise/core/core.hpp"
#include "mortise/os.hpp"
#include "mortise/data.hpp"
#include "mortise/sync.hpp"
#include "mortise/policy.hpp"
#include "mortise/source.hpp"
#include "mortise/backbone.hpp"
#include "mortise/cache.hpp"
#include "mortise/guard.hpp"
#include "mortise/shape.hpp"
#include "mortise/route.hpp"
#include "mortise/watch.hpp"
