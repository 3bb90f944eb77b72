// Everything of core/: the language in which layers are written.
#pragma once

#include "mortise/core/bits.hpp"
#include "mortise/core/block.hpp"
#include "mortise/core/block_facts.hpp"
#include "mortise/core/check.hpp"
#include "mortise/core/fault.hpp"
#include "mortise/core/growing.hpp"
#include "mortise/core/hits_near.hpp"
#include "mortise/core/inline.hpp"
#include "mortise/core/layer.hpp"
#include "mortise/core/progress.hpp"
#include "mortise/core/request.hpp"
#include "mortise/core/stack.hpp"
#include "mortise/core/units.hpp"
