// Operands of the matrix products: from shared memory into registers, in parts.
#pragma once

#include "swizzle.cuh"

namespace flash_attention {

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// The chunks of a tile that one lane gives ldmatrix the addresses of. A lane's row changes by
// multiples of 8 only, so that its part of the swizzle never does.
template <int ROWS>
struct Lane {
  uint32_t tile;
  int row;
  int chunk;  // 0 or 1
  uint32_t start;

  __device__ __forceinline__ Lane(uint32_t tile, int row, int chunk)
      : tile(tile), row(row), chunk(chunk), start(tile + tile_offset<ROWS>(row, chunk)) {}

  // `rows` is a multiple of 8, `chunks` of 2.
  __device__ __forceinline__ uint32_t address(int rows, int chunks) const {
    if constexpr (kStaticOffsets) return further<ROWS>(start, chunks) + rows * kPitch;
    return tile + tile_offset<ROWS>(row + rows, chunk + chunks);
  }
};

// What one warp's lanes load for one step along the depth of a product: kQuads times four 8x8
// matrices. Each kind says from which row and chunk a lane reads, and where step and quad lie.

struct QueryStep {
  static constexpr int kQuads = kRowTiles;  // A: 16 rows by 16 columns each
  static constexpr int kSteps = kScoreSteps;
  Lane<kBlockRows> from;

  __device__ __forceinline__ QueryStep(uint32_t tile, int warp, int lane)
      : from(tile, warp * kWarpRows + lane % 16, lane / 16) {}

  __device__ __forceinline__ void load(uint32_t (&r)[4], int step, int quad) const {
    load_matrices(r, from.address(quad * kMmaRows, 2 * step));
  }
};

struct KeyStep {
  static constexpr int kQuads = kScoreTiles / 2;  // B, as it lies: 16 keys by 16 columns each
  static constexpr int kSteps = kScoreSteps;
  Lane<kBlockCols> from;

  __device__ __forceinline__ KeyStep(uint32_t tile, int lane)
      : from(tile, lane % 8 + lane / 16 * 8, lane / 8 % 2) {}

  __device__ __forceinline__ void load(uint32_t (&r)[4], int step, int quad) const {
    load_matrices(r, from.address(quad * 2 * kMmaCols, 2 * step));
  }
};

struct ValueStep {
  static constexpr int kQuads = kOutTiles / 2;  // B, transposed: 16 rows by 16 columns each
  static constexpr int kSteps = kOutSteps;
  Lane<kBlockCols> from;

  __device__ __forceinline__ ValueStep(uint32_t tile, int lane)
      : from(tile, lane % 16, lane / 16) {}

  __device__ __forceinline__ void load(uint32_t (&r)[4], int step, int quad) const {
    load_matrices_transposed(r, from.address(step * kMmaDepth, 2 * quad));
  }
};

// One operand in registers. TILES is how many 8-wide fragments along the depth it holds at a time;
// 0 is the whole operand. With double buffering, an operand in parts has two of them: one is
// multiplied while the next one is loaded.
//
// The compiler hoists loads as far as registers allow, and by that turns all of these into one. A
// __syncwarp keeps them apart, because no load may pass it: behind the load of a part that is
// ahead, and before the load of a part that is not. It orders instructions and costs next to
// nothing.
template <typename Step, int TILES>
struct Operand {
  static constexpr bool kInParts = TILES != 0;
  static constexpr int kPartSteps = kInParts ? TILES * kMmaCols / kMmaDepth : Step::kSteps;
  static constexpr int kParts = Step::kSteps / kPartSteps;
  static constexpr bool kAhead = kDoubleBuffer && kInParts;
  static constexpr int kStages = kAhead ? 2 : 1;
  static_assert(kPartSteps >= 1 && kParts * kPartSteps == Step::kSteps, "whole parts");
  static_assert(kParts >= kStages, "double buffering needs two parts");

  uint32_t fragment[kStages][kPartSteps][Step::kQuads][4];

  // Loads what must be there before the first step of the product.
  __device__ __forceinline__ void begin(const Step& source) { load_part(source, 0); }

  // Loads what is due at a step: at the first of a part, this part or the next one.
  __device__ __forceinline__ void at_step(const Step& source, int step) {
    if (step % kPartSteps != 0) return;
    const int part = step / kPartSteps;
    if constexpr (kAhead) {
      if (part + 1 < kParts) load_part(source, part + 1);
    } else {
      if (part > 0) load_part(source, part);
    }
  }

  __device__ __forceinline__ const uint32_t (&step(int step) const)[Step::kQuads][4] {
    return fragment[step / kPartSteps % kStages][step % kPartSteps];
  }

 private:
  __device__ __forceinline__ void load_part(const Step& source, int part) {
    if constexpr (kInParts && !kAhead) __syncwarp();
#pragma unroll
    for (int i = 0; i < kPartSteps; ++i) {
#pragma unroll
      for (int quad = 0; quad < Step::kQuads; ++quad) {
        source.load(fragment[part % kStages][i][quad], part * kPartSteps + i, quad);
      }
    }
    if constexpr (kAhead) __syncwarp();
  }
};

}  // namespace flash_attention
