// Everything of guard/.
#pragma once

#include "mortise/guard/delayed_batches.hpp"
#include "mortise/guard/delayed_free.hpp"
#include "mortise/guard/delayed_reuse.hpp"
#include "mortise/guard/guard_pages.hpp"
#include "mortise/guard/header_magic.hpp"
#include "mortise/guard/noted_crimes.hpp"
#include "mortise/guard/quarantine_lines.hpp"
#include "mortise/guard/random_slots.hpp"
#include "mortise/guard/sampled_guards.hpp"
#include "mortise/guard/sealed_tail.hpp"
#include "mortise/guard/seals.hpp"
#include "mortise/guard/size_check.hpp"
#include "mortise/guard/tail_checksum.hpp"
#include "mortise/guard/zero_on_free.hpp"
