// Shared memory: the queries, the ring of K and V, the staged output, and their barriers.
//
// K and V go from the last tile to the first: the one that may be cut off comes first, where the
// loop has a step of its own anyway. A slot is `full` when its copy has arrived, and `empty` when
// every consumer warp has read it.
#pragma once

#include "tensor_copy.cuh"
#include "tiles.cuh"

namespace flash_attention_hopper {

enum Operand : int { kKeys = 0, kValues = 1 };

// Place in a ring: the slot, and the parity of its present round.
struct Position {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

class Shared {
 public:
  __device__ __forceinline__ explicit Shared(const void* base) : base_(shared_address(base)) {}

  __device__ __forceinline__ uint32_t query(int group) const {
    return base_ + group * kQueryBytes;
  }
  __device__ __forceinline__ uint32_t slot(Operand operand, int stage) const {
    return base_ + kConsumers * kQueryBytes + (2 * stage + operand) * kKeyBytes;
  }
  __device__ __forceinline__ uint32_t output(int group) const {
    return kSeparateOutput ? base_ + kLoopBytes + group * kQueryBytes : query(group);
  }

  __device__ __forceinline__ uint32_t full(Operand operand, int stage) const {
    return barrier(2 * stage + operand);
  }
  __device__ __forceinline__ uint32_t empty(Operand operand, int stage) const {
    return barrier(2 * kStages + 2 * stage + operand);
  }
  __device__ __forceinline__ uint32_t query_full(int group) const {
    return barrier(4 * kStages + group);
  }
  __device__ __forceinline__ uint32_t query_empty(int group) const {
    return barrier(4 * kStages + kConsumers + group);
  }

  // By one thread, before anybody uses a barrier.
  __device__ __forceinline__ void init_barriers() const {
    for (int stage = 0; stage < kStages; ++stage) {
      for (Operand operand : {kKeys, kValues}) {
        barrier_init(full(operand, stage), 1);
        barrier_init(empty(operand, stage), kConsumers * kGroupWarps);
      }
    }
    for (int group = 0; group < kConsumers; ++group) {
      barrier_init(query_full(group), 1);
      barrier_init(query_empty(group), kEarlyRelease ? kGroupWarps : 1);
    }
    barriers_publish();
  }

 private:
  uint32_t base_;

  static_assert((4 * kStages + 2 * kConsumers) * 8 <= kBarrierBytes, "room for the barriers");

  // After the ring: tiles are multiples of the swizzle's 1024 bytes and must be aligned to them.
  __device__ __forceinline__ uint32_t barrier(int index) const {
    return base_ + kLoopBytes - kBarrierBytes + index * 8;
  }
};

struct Maps {
  CUtensorMap query;  // boxes of 64 rows
  CUtensorMap keys;   // boxes of kBlockCols rows
  CUtensorMap values;
  CUtensorMap output;  // boxes of 64 rows
};

// Starts the copy of a consumer's rows of Q.
__device__ __forceinline__ void load_query(const Shared& shared, const Maps& maps,
                                           const Tile& tile, int group) {
  const uint32_t barrier = shared.query_full(group);
  barrier_expect(barrier, kQueryBytes);
  load_tile(shared.query(group), maps.query, tile.row + group * kGroupRows, tile.head, tile.batch,
            barrier);
}

// Starts the copy of the tile of K or V that `step` of the loop needs.
__device__ __forceinline__ void load_slot(const Shared& shared, const Maps& maps,
                                          const Tile& tile, Operand operand, int stage, int step,
                                          int steps) {
  const uint32_t barrier = shared.full(operand, stage);
  barrier_expect(barrier, kKeyBytes);
  load_tile(shared.slot(operand, stage), operand == kKeys ? maps.keys : maps.values,
            (steps - 1 - step) * kBlockCols, tile.head, tile.batch, barrier);
}

}  // namespace flash_attention_hopper
