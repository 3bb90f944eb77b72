// Everything of shape/.
#pragma once

#include "mortise/shape/aligned.hpp"
#include "mortise/shape/block_marks.hpp"
#include "mortise/shape/limited_to.hpp"
#include "mortise/shape/page_index.hpp"
#include "mortise/shape/sized_header.hpp"
#include "mortise/shape/stays_mapped.hpp"
