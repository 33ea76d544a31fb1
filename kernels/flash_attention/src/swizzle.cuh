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

__device__ __forceinline__ uint32_t tile_offset(int row, int chunk) {
  const int place = kSwizzled ? chunk ^ (row % kSwizzleRows) : chunk;
  return row * kRowBytes + place * kChunkBytes;
}

// Address of the chunks 2 * pair and 2 * pair + 1 of a row, from the address that a lane has for
// pair 0. Lanes keep their row modulo 8, so that their part of the XOR is done once; what is left is
// a constant. Tiles are aligned to 128 bytes, so that the XOR stays inside an address's low bits.
__device__ __forceinline__ uint32_t chunk_pair(uint32_t lane_address, int pair) {
  constexpr int kPairBytes = 2 * kChunkBytes;
  constexpr int kPairs = kSwizzleBytes / kPairBytes;
  if constexpr (kSwizzled) {
    return (lane_address ^ (pair % kPairs * kPairBytes)) + pair / kPairs * kSwizzleBytes;
  }
  return lane_address + pair * kPairBytes;
}

}  // namespace flash_attention
