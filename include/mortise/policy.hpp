// Everything of policy/.
#pragma once

#include "mortise/policy/checker.hpp"
#include "mortise/policy/chooser.hpp"
#include "mortise/policy/coloured.hpp"
#include "mortise/policy/distribution.hpp"
#include "mortise/policy/fill.hpp"
#include "mortise/policy/fit.hpp"
#include "mortise/policy/huge.hpp"
#include "mortise/policy/on_fault.hpp"
#include "mortise/policy/order.hpp"
#include "mortise/policy/probe.hpp"
#include "mortise/policy/purge.hpp"
#include "mortise/policy/route.hpp"
#include "mortise/policy/size_classes.hpp"
#include "mortise/policy/tag.hpp"
