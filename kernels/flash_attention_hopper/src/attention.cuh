// What a consumer warpgroup does for its 64 rows of a tile: the loop over K and V.
#pragma once

#include "ring.cuh"
#include "softmax.cuh"
#include "turns.cuh"

namespace flash_attention_hopper {

struct Consumer {
  const Shared& shared;
  const Maps& maps;
  int group;
  int lane;
  Position keys;    // of the next tile of K
  Position values;  // of the next tile of V

  __device__ __forceinline__ uint32_t await(Operand operand, const Position& position) const {
    barrier_wait(shared.full(operand, position.stage), position.parity);
    return shared.slot(operand, position.stage);
  }

  // This warp has read the slot. Without a producer, the block waits for all of its warps, and one
  // thread starts the copy that comes next into this slot.
  __device__ __forceinline__ void release(Operand operand, Position& position, const Tile& tile,
                                          int step, int steps) const {
    if constexpr (kProducer) {
      if (lane == 0) barrier_arrive(shared.empty(operand, position.stage));
    } else {
      __syncthreads();
      if (threadIdx.x == 0 && step + kStages < steps) {
        load_slot(shared, maps, tile, operand, position.stage, step + kStages, steps);
      }
    }
    position.advance();
  }

  // This warp needs its query no more.
  __device__ __forceinline__ void release_query() const {
    if (kEarlyRelease && lane == 0) barrier_arrive(shared.query_empty(group));
  }
};

// The first step, up to the exponentials; `valid` columns of its tile are inside the sequence.
template <class Timeline>
__device__ __forceinline__ void begin(Consumer& consumer, Timeline& timeline, const Tile& tile,
                                      int steps, int valid, Scores& scores, Softmax& softmax) {
  timeline.enter(Activity::wait_for_keys);
  const uint32_t keys = consumer.await(kKeys, consumer.keys);
  timeline.enter(Activity::start_scores);
  start_scores(scores, consumer.shared.query(consumer.group), keys);
  timeline.enter(Activity::wait_for_scores);
  products_wait<0>();
  pin(scores);
  timeline.enter(Activity::softmax);
  consumer.release(kKeys, consumer.keys, tile, 0, steps);
  if (valid < kBlockCols) mask(scores, valid, consumer.lane);
  softmax.take<true>(scores);
}

// One step after the other: the tensor cores wait for the softmax of this warpgroup.
template <class Timeline>
__device__ __forceinline__ void attend_in_order(Consumer& consumer, Timeline& timeline,
                                                const Tile& tile, int steps, int valid,
                                                Output& output, Softmax& softmax) {
  Scores scores;
  Weights weights;
  begin(consumer, timeline, tile, steps, valid, scores, softmax);
#pragma unroll 1
  for (int step = 0;; ++step) {
    pack_weights(weights, scores);
    timeline.enter(Activity::wait_for_values);
    const uint32_t values = consumer.await(kValues, consumer.values);
    timeline.enter(Activity::start_output);
    start_output(output, weights, values, step != 0);
    timeline.enter(Activity::wait_for_output);
    products_wait<0>();
    pin(output);
    timeline.enter(Activity::rescale);
    consumer.release(kValues, consumer.values, tile, step, steps);
    if (step + 1 == steps) break;

    timeline.enter(Activity::wait_for_keys);
    const uint32_t keys = consumer.await(kKeys, consumer.keys);
    if constexpr (kPingPong) timeline.enter(Activity::wait_for_turn);
    take_turn(consumer.group);
    timeline.enter(Activity::start_scores);
    start_scores(scores, consumer.shared.query(consumer.group), keys);
    timeline.enter(Activity::wait_for_scores);
    products_wait<0>();
    pass_turn(consumer.group);
    pin(scores);
    timeline.enter(Activity::softmax);
    consumer.release(kKeys, consumer.keys, tile, step + 1, steps);
    softmax.take<false>(scores);
    softmax.rescale(output);
  }
  consumer.release_query();
}

// The next Q K^T and this P V are both under way while the softmax is computed.
template <class Timeline>
__device__ __forceinline__ void attend_overlapped(Consumer& consumer, Timeline& timeline,
                                                  const Tile& tile, int steps, int valid,
                                                  Output& output, Softmax& softmax) {
  Scores scores;
  Weights weights;
  begin(consumer, timeline, tile, steps, valid, scores, softmax);
  pack_weights(weights, scores);
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; ++i) output[i] = 0.0f;
#pragma unroll 1
  for (int step = 1; step < steps; ++step) {
    timeline.enter(Activity::wait_for_keys);
    const uint32_t keys = consumer.await(kKeys, consumer.keys);
    if constexpr (kPingPong) timeline.enter(Activity::wait_for_turn);
    take_turn(consumer.group);
    timeline.enter(Activity::start_scores);
    start_scores(scores, consumer.shared.query(consumer.group), keys);
    timeline.enter(Activity::wait_for_values);
    const uint32_t values = consumer.await(kValues, consumer.values);
    timeline.enter(Activity::start_output);
    start_output(output, weights, values, true);
    pass_turn(consumer.group);

    timeline.enter(Activity::wait_for_scores);
    products_wait<1>();
    pin(scores);
    timeline.enter(Activity::softmax);
    consumer.release(kKeys, consumer.keys, tile, step, steps);
    softmax.take<false>(scores);

    timeline.enter(Activity::wait_for_output);
    products_wait<0>();
    pin(output);
    timeline.enter(Activity::rescale);
    consumer.release(kValues, consumer.values, tile, step - 1, steps);
    softmax.rescale(output);
    // Not before the wait: the products read these registers, and ptxas would serialise them.
    pack_weights(weights, scores);
  }
  consumer.release_query();
  timeline.enter(Activity::wait_for_values);
  const uint32_t values = consumer.await(kValues, consumer.values);
  timeline.enter(Activity::start_output);
  start_output(output, weights, values, true);
  timeline.enter(Activity::wait_for_output);
  products_wait<0>();
  pin(output);
  consumer.release(kValues, consumer.values, tile, steps - 1, steps);
}

// The rows of this warpgroup are beyond the sequence: it only takes part in the barriers, and leaves
// the tensor cores to the others.
template <class Timeline>
__device__ __forceinline__ void stand_by(Consumer& consumer, Timeline& timeline, const Tile& tile,
                                         int steps) {
  timeline.enter(Activity::stand_by);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    consumer.await(kKeys, consumer.keys);
    if (step != 0) {
      take_turn(consumer.group);
      pass_turn(consumer.group);
    }
    consumer.release(kKeys, consumer.keys, tile, step, steps);
    consumer.await(kValues, consumer.values);
    consumer.release(kValues, consumer.values, tile, step, steps);
  }
  // One thread releases the query for all warps; none of them may still have to see it arrive.
  if constexpr (kPersistent && !kEarlyRelease) group_sync(consumer.group);
  consumer.release_query();
}

}  // namespace flash_attention_hopper
