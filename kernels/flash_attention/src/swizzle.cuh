// Where a 16-byte chunk of a tile lies in shared memory.
//
// A row is at least 128 bytes, all 32 banks: without a swizzle the same chunk of 8 rows, which is
// what one 8x8 matrix of ldmatrix reads, lies in the same 4 banks. XOR with the row's number
// spreads it over all of them.
#pragma once

#include "config.cuh"

namespace flash_attention {

constexpr int kSwizzleRows = 8;
constexpr int kSwizzleBytes = kSwizzleRows * kChunkBytes;

// From one group of 8 chunks of a row to the next. Tiles of 64 elements lie one after the other,
// otherwise a row lies in one piece.
template <int ROWS>
constexpr int kGroupBytes = kNarrowTiles ? ROWS * kNarrowBytes : kSwizzleBytes;

// Where a chunk of a row lies in a tile of ROWS rows.
template <int ROWS>
__device__ __forceinline__ uint32_t tile_offset(int row, int chunk) {
  const int place = kSwizzled ? chunk ^ (row % kSwizzleRows) : chunk;
  return row * kPitch + place / kSwizzleRows * kGroupBytes<ROWS> +
         place % kSwizzleRows * kChunkBytes;
}

// Address of a chunk that is `chunks` further in the same row than the one at `address`, where that
// is the first of its row, or the second and `chunks` is even. The row's part of the XOR is in
// `address` already, so that what is left is a constant. Tiles are aligned to 128 bytes: the XOR
// stays inside an address's low bits.
template <int ROWS>
__device__ __forceinline__ uint32_t further(uint32_t address, int chunks) {
  const uint32_t inside = chunks % kSwizzleRows * kChunkBytes;
  const uint32_t group = chunks / kSwizzleRows * kGroupBytes<ROWS>;
  return (kSwizzled ? address ^ inside : address + inside) + group;
}

}  // namespace flash_attention
