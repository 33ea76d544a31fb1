// The 13 fields of a configuration, which the build gives as definitions, and what follows from
// them.
#pragma once

#include "../../attention/src/config.cuh"

namespace flash_attention {

using namespace attention;

constexpr int kBlockRows = BLOCK_ROWS;  // B_r: query rows of a thread block
constexpr int kWarps = N_WARPS;
constexpr bool kAsyncCopy = ASYNC_COPY;
constexpr bool kEagerLoads = EAGER_LOAD_BLOCKS;
constexpr bool kSwizzled = SWIZZLED;
constexpr int kQTiles = Q_LOAD_TILES;  // 8-wide fragments at a time; 0: the whole operand
constexpr int kKTiles = K_LOAD_TILES;
constexpr int kVTiles = V_LOAD_TILES;
constexpr bool kDoubleBuffer = DOUBLE_BUFFER;
constexpr bool kOptimizedSoftmax = OPTIMIZED_SOFTMAX;

// What the steps 8 to 16 of the ladder add to the fields, each from its step on.
constexpr int kStep = STEP;
constexpr bool kStaticOffsets = kStep >= 8;       // swizzle.cuh: addresses of ldmatrix
constexpr bool kWovenProducts = kStep >= 9;       // product.cuh, kernel.cuh: order of products
constexpr bool kLazyReferences = kStep >= 10;     // softmax.cuh: when O is rescaled
constexpr bool kStaticStores = kStep >= 11;       // epilogue.cuh: addresses of the staged output
constexpr bool kMultiplyByInverse = kStep >= 12;  // epilogue.cuh: one division per row
constexpr bool kBackwards = kStep >= 13;          // kernel.cuh: from the last block of K and V on
constexpr bool kStoresBypassL1 = kStep >= 14;     // epilogue.cuh
constexpr bool kNarrowTiles = kStep >= 15;        // swizzle.cuh: tiles of 64 elements
constexpr bool kStaticStride = kStep >= 16;       // kernel.cuh: row stride of this many heads
constexpr int kStaticHeads = 16;

constexpr int kThreads = kWarps * kWarpSize;
constexpr int kWarpRows = kBlockRows / kWarps;

// Shapes of one mma.sync.m16n8k16.
constexpr int kMmaRows = 16;
constexpr int kMmaCols = 8;

constexpr int kRowTiles = kWarpRows / kMmaRows;     // of a warp, in both products
constexpr int kScoreTiles = kBlockCols / kMmaCols;  // columns of S = Q K^T
constexpr int kScoreSteps = kHeadDim / kMmaDepth;   // depth of S = Q K^T
constexpr int kOutTiles = kHeadDim / kMmaCols;      // columns of O = P V
constexpr int kOutSteps = kBlockCols / kMmaDepth;   // depth of O = P V

constexpr int kChunkElements = kChunkBytes / kElementBytes;
constexpr int kRowBytes = kHeadDim * kElementBytes;
constexpr int kRowChunks = kRowBytes / kChunkBytes;
constexpr int kNarrowBytes = 128;  // all 32 banks: a row of a tile that is 64 elements wide
constexpr int kPitch = kNarrowTiles ? kNarrowBytes : kRowBytes;  // from one row to the next
constexpr int kSharedBytes = (kBlockRows + 2 * kBlockCols) * kRowBytes;

// Registers for the sums of O and S, which live from one step of the loop to the next.
constexpr int kAccumulators = kRowTiles * (kOutTiles + kScoreTiles) * 4;

// With every operand whole there are no parts to buffer: the second stage is V as a whole, which
// then is loaded before the softmax.
constexpr bool kValuesAhead = kDoubleBuffer && kQTiles == 0 && kKTiles == 0 && kVTiles == 0;

// Thread blocks that the compiler shall leave room for on a multiprocessor, by the registers that
// must be held. The room for operands and addresses is what all tiles do without spills.
constexpr int kHeldQuery = kQTiles == 0 ? kRowTiles * kScoreSteps * 4 : 0;
constexpr int kHeldValues = kValuesAhead ? kOutTiles * kOutSteps * 2 : 0;
constexpr int kWorkRegisters = 40;
constexpr int kRegistersPerMultiprocessor = 65536;
constexpr int kRegistersWanted = kAccumulators + kHeldQuery + kHeldValues + kWorkRegisters;
constexpr int kFittingBlocks = kRegistersPerMultiprocessor / (kThreads * kRegistersWanted);
constexpr int kMinBlocks = kFittingBlocks < 1 ? 1 : kFittingBlocks;

static_assert(kStep >= 7 && kStep <= 16, "the ladder's first steps are fields");
static_assert(DTYPE == 5 || DTYPE == 15, "fp16 or bf16");
static_assert(kWarpRows % kMmaRows == 0, "a warp works on whole 16-row tiles");
static_assert(kBlockCols % kMmaDepth == 0 && kHeadDim % 64 == 0, "whole tiles and swizzle periods");
static_assert(!kEagerLoads || kAsyncCopy, "only asynchronous copies can run ahead");
static_assert(kAccumulators < 255, "O and S must fit into the registers of a thread");

}  // namespace flash_attention
