// What the definitions of every attention kernel say, and sizes that all have.
#pragma once

#include <cstdint>

namespace attention {

constexpr bool kBf16 = DTYPE == 15;  // Codes as in c10::ScalarType: 5 is Half, 15 is BFloat16.
constexpr int kHeadDim = D_HEAD;
constexpr int kBlockCols = BLOCK_COLS;  // B_c: key and value rows of one step of the loop

constexpr int kWarpSize = 32;
constexpr int kMmaDepth = 16;
constexpr int kElementBytes = 2;
constexpr int kChunkBytes = 16;  // What one thread copies at once, and what a swizzle moves.

}  // namespace attention
