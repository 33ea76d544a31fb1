// The parameters of a variant, which the build gives as definitions, and what follows from them.
#pragma once

#include "../../attention/src/config.cuh"

namespace flash_attention_hopper {

using namespace attention;

constexpr int kConsumers = CONSUMERS;           // warpgroups that compute
constexpr int kStages = STAGES;                 // tiles of K, and as many of V, in shared memory
constexpr bool kProducer = PRODUCER;            // kernel.cuh: a warpgroup that only copies
constexpr bool kOverlap = OVERLAP;              // attention.cuh: softmax during the products
constexpr bool kPingPong = PING_PONG;           // turns.cuh
constexpr bool kLazyRescale = LAZY_RESCALE;     // softmax.cuh
constexpr bool kTensorStore = TENSOR_STORE;     // epilogue.cuh
constexpr bool kPersistent = PERSISTENT;        // tiles.cuh
constexpr bool kHeadsInnermost = HEADS_INNERMOST;  // tiles.cuh: order of the tiles
constexpr bool kCausal = CAUSAL;                // a query sees the keys up to its own

constexpr int kGroupWarps = 4;
constexpr int kGroupThreads = kGroupWarps * kWarpSize;
constexpr int kGroupRows = 64;  // of one wgmma
constexpr int kBlockRows = kConsumers * kGroupRows;  // B_r: query rows of a thread block
constexpr int kThreads = (kConsumers + (kProducer ? 1 : 0)) * kGroupThreads;

constexpr int kPanelCols = 64;   // a swizzled row is 128 bytes, all 32 banks
constexpr int kPanelRowBytes = kPanelCols * kElementBytes;
constexpr int kPanels = kHeadDim / kPanelCols;
constexpr int kSwizzleBytes = 1024;  // 8 rows of a panel: the pattern repeats after it

// A tile lies in shared memory panel after panel, each with all rows of the tile.
constexpr int tile_bytes(int rows) { return rows * kHeadDim * kElementBytes; }

constexpr int kQueryBytes = tile_bytes(kGroupRows);  // of one consumer; its output has as many
constexpr int kKeyBytes = tile_bytes(kBlockCols);    // one tile of K, or of V

// The output is staged in a place of its own where there is room, so that a persistent block can
// load its next query during the store. Otherwise it takes the place of the query.
constexpr int kMostSharedBytes = 232448;  // of a block at compute capability 9.0: 227 KiB
constexpr int kBarrierBytes = 1024;
constexpr int kLoopBytes = kConsumers * kQueryBytes + 2 * kStages * kKeyBytes + kBarrierBytes;
constexpr bool kSeparateOutput = kTensorStore && kPersistent &&
                                 kLoopBytes + kConsumers * kQueryBytes <= kMostSharedBytes;
constexpr int kSharedBytes = kLoopBytes + (kSeparateOutput ? kConsumers * kQueryBytes : 0);

// A consumer's query is free after its last product with it, unless the output takes its place.
constexpr bool kEarlyRelease = kPersistent && (kSeparateOutput || !kTensorStore);

// setmaxnreg: one consumer and one producer have 255 registers a thread anyway. The sums are at
// most the 65536 registers of a multiprocessor.
constexpr bool kMovesRegisters = kProducer && kConsumers > 1;
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = kConsumers == 2 ? 240 : 160;

static_assert(DTYPE == 5 || DTYPE == 15, "fp16 or bf16");
static_assert(kHeadDim % kPanelCols == 0 && kHeadDim <= 256, "whole panels, and N of a wgmma");
static_assert(kBlockCols % kMmaDepth == 0 && kBlockCols <= 256, "whole steps of P V, boxes of TMA");
static_assert(kConsumers >= 1 && kConsumers <= 3, "a warpgroup needs its registers");
static_assert(kProducer || !(kPingPong || kPersistent), "both need a producer that runs ahead");
static_assert(kConsumers > 1 || !kPingPong, "turns need somebody to take them");
static_assert(kSharedBytes <= kMostSharedBytes, "the tiles must fit into shared memory");

}  // namespace flash_attention_hopper
