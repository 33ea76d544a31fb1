// The kernel: who copies, who computes.
#pragma once

#include "epilogue.cuh"

namespace flash_attention_hopper {

template <int COUNT>
__device__ __forceinline__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// K and V, tile after tile: runs ahead of the consumers by the ring's stages.
__device__ __forceinline__ void produce_keys_and_values(const Shared& shared, const Maps& maps,
                                                        const Problem& problem) {
  Position position;
  const int col_blocks = problem.col_blocks();
  // One thread calls this, and so writes.
  for_each_tile(problem, kKeysAndValuesRow, true, [&](const Tile& tile, auto& timeline) {
    const int steps = kCausal ? tile.steps(problem) : col_blocks;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      for (Operand operand : {kKeys, kValues}) {
        timeline.enter(Activity::wait_for_slot);
        barrier_wait(shared.empty(operand, position.stage), position.parity ^ 1);
        timeline.enter(Activity::start_copy);
        load_slot(shared, maps, tile, operand, position.stage, step, steps);
      }
      position.advance();
    }
  });
}

// Q, by a warp of its own: waiting for a free place must not hold up K and V.
__device__ __forceinline__ void produce_queries(const Shared& shared, const Maps& maps,
                                                const Problem& problem) {
  uint32_t parity = 0;
  for_each_tile(problem, kQueriesRow, true, [&](const Tile& tile, auto& timeline) {
    for (int group = 0; group < kConsumers; ++group) {
      timeline.enter(Activity::wait_for_slot);
      barrier_wait(shared.query_empty(group), parity ^ 1);
      timeline.enter(Activity::start_copy);
      load_query(shared, maps, tile, group);
    }
    parity ^= 1;
  });
}

// Without a producer: the first tiles of the ring; `Consumer::release` starts the others.
__device__ __forceinline__ void start_copies(const Shared& shared, const Maps& maps,
                                             const Problem& problem) {
  const Tile tile(problem, blockIdx.x);
  const int steps = tile.steps(problem);
  for (int group = 0; group < kConsumers; ++group) load_query(shared, maps, tile, group);
  for (int step = 0; step < kStages && step < steps; ++step) {
    load_slot(shared, maps, tile, kKeys, step, step, steps);
    load_slot(shared, maps, tile, kValues, step, step, steps);
  }
}

// A consumer's 64 rows of a tile. `scale` is log2(e) / sqrt(d_head).
template <class Timeline>
__device__ __forceinline__ void compute_tile(Consumer& consumer, Timeline& timeline,
                                             const Problem& problem, const Tile& tile,
                                             float scale, void* destination) {
  const int steps = tile.steps(problem);
  const Diagonal diagonal(problem, tile, consumer.group, steps);
  const int valid = problem.seq_len - (steps - 1 - diagonal.first()) * kBlockCols;
  if (diagonal.first() != 0) stand_by(consumer, timeline, tile, diagonal.first(), steps);
  Output output;
  Softmax softmax(scale);
  if constexpr (kOverlap) {
    attend_overlapped(consumer, timeline, tile, steps, valid, diagonal, output, softmax);
  } else {
    attend_in_order(consumer, timeline, tile, steps, valid, diagonal, output, softmax);
  }
  timeline.enter(Activity::epilogue);
  divide(output, softmax);
  store_output(consumer, problem, tile, output, destination);
}

__device__ __forceinline__ void consume(const Shared& shared, const Maps& maps,
                                        const Problem& problem, int group, float scale,
                                        void* destination) {
  const int lane = threadIdx.x % kWarpSize;
  Consumer consumer{shared, maps, group, lane, {}, {}};
  uint32_t parity = 0;
  const bool writes = threadIdx.x % kGroupThreads == 0;
  open_turns(group);
  for_each_tile(problem, group, writes, [&](const Tile& tile, auto& timeline) {
    timeline.enter(Activity::wait_for_query);
    barrier_wait(shared.query_full(group), parity);
    parity ^= 1;
    // Without a producer every release is a barrier of the whole block, whose order is that of
    // compute_tile: there, rows beyond the sequence are computed, and not stored.
    if (!kProducer || tile.row + group * kGroupRows < problem.seq_len) {
      compute_tile(consumer, timeline, problem, tile, scale, destination);
    } else {
      sit_out(consumer, timeline, tile, tile.steps(problem));
    }
    if constexpr (kPersistent && !kEarlyRelease) {
      if (threadIdx.x % kGroupThreads == 0) barrier_arrive(shared.query_empty(group));
    }
  });
  close_turns(group);
  // Shared memory must live until the last store has read it.
  if (kSeparateOutput && threadIdx.x % kGroupThreads == 0) stores_read();
}

__device__ __forceinline__ void produce(const Shared& shared, const Maps& maps,
                                        const Problem& problem, int warp) {
  if (threadIdx.x % kWarpSize != 0) return;
  if (warp == 0) produce_keys_and_values(shared, maps, problem);
  if (warp == 1) produce_queries(shared, maps, problem);
}

__global__ void __launch_bounds__(kThreads, 1)
    flash_attention_hopper_forward(const __grid_constant__ Maps maps, const Problem problem,
                                   float scale, void* destination) {
  extern __shared__ __align__(kSwizzleBytes) uint8_t memory[];
  const Shared shared(memory);
  // The compiler must see that this is the same for a whole warp: wgmma and setmaxnreg are.
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / kWarpSize, 0);
  if (threadIdx.x == 0) {
    shared.init_barriers();
    if constexpr (!kProducer) start_copies(shared, maps, problem);
  }
  __syncthreads();
  if constexpr (!kProducer) {
    consume(shared, maps, problem, warp / kGroupWarps, scale, destination);
  } else if (warp < kGroupWarps) {
    if constexpr (kMovesRegisters) keep_registers<kProducerRegisters>();
    produce(shared, maps, problem, warp);
  } else {
    if constexpr (kMovesRegisters) take_registers<kConsumerRegisters>();
    consume(shared, maps, problem, warp / kGroupWarps - 1, scale, destination);
  }
}

}  // namespace flash_attention_hopper
