// Everything of route/.
#pragma once

#include "mortise/route/bypass.hpp"
