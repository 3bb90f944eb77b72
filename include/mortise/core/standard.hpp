// The language that the headers are written in, said in one line where a compiler is set to an older one.
#pragma once

#if __cplusplus <= 201703L  // g++ 10 has a number of its own for C++20
#error "mortise's layers and pools need C++20: -std=c++20"
#endif
