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

// What a causal mask hides from a consumer's rows. Without one that is nothing.
class Diagonal {
 public:
  __device__ __forceinline__ Diagonal(const Problem& problem, const Tile& tile, int group,
                                      int steps) {
    if constexpr (kCausal) row_ = tile.row + group * kGroupRows;
    // Without a producer all warps meet at every tile, also where some see nothing.
    if constexpr (kCausal && kProducer) {
      const int keys = min(row_ + kGroupRows, problem.seq_len);
      first_ = steps - (keys + kBlockCols - 1) / kBlockCols;
    }
  }

  // The first step of which its rows see something: later rows of the block see later keys.
  __device__ __forceinline__ int first() const { return first_; }

  // Leaves the scores of keys that are not after their query; `key` is that of column 0.
  __device__ __forceinline__ void mask(Scores& scores, int key, int lane) const {
    if constexpr (kCausal) {
      if (row_ < key + kBlockCols - 1) mask_later(scores, row_ - key, lane);
    }
  }

 private:
  int row_ = 0;
  int first_ = 0;
};

// The first step, up to the exponentials; `valid` columns of its tile are inside the sequence.
template <class Timeline>
__device__ __forceinline__ void begin(Consumer& consumer, Timeline& timeline, const Tile& tile,
                                      int steps, int valid, const Diagonal& diagonal,
                                      Scores& scores, Softmax& softmax) {
  timeline.enter(Activity::wait_for_keys);
  const uint32_t keys = consumer.await(kKeys, consumer.keys);
  if (kCausal && diagonal.first() != 0) take_turn(consumer.group);
  timeline.enter(Activity::start_scores);
  start_scores(scores, consumer.shared.query(consumer.group), keys);
  if (kCausal && diagonal.first() != 0) pass_turn(consumer.group);
  timeline.enter(Activity::wait_for_scores);
  products_wait<0>();
  pin(scores);
  timeline.enter(Activity::softmax);
  consumer.release(kKeys, consumer.keys, tile, diagonal.first(), steps);
  if (valid < kBlockCols) mask(scores, valid, consumer.lane);
  diagonal.mask(scores, (steps - 1 - diagonal.first()) * kBlockCols, consumer.lane);
  softmax.take<true>(scores);
}

// One step after the other: the tensor cores wait for the softmax of this warpgroup.
template <class Timeline>
__device__ __forceinline__ void attend_in_order(Consumer& consumer, Timeline& timeline,
                                                const Tile& tile, int steps, int valid,
                                                const Diagonal& diagonal, Output& output,
                                                Softmax& softmax) {
  Scores scores;
  Weights weights;
  begin(consumer, timeline, tile, steps, valid, diagonal, scores, softmax);
#pragma unroll 1
  for (int step = diagonal.first();; ++step) {
    pack_weights(weights, scores);
    timeline.enter(Activity::wait_for_values);
    const uint32_t values = consumer.await(kValues, consumer.values);
    timeline.enter(Activity::start_output);
    start_output(output, weights, values, step != diagonal.first());
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
    diagonal.mask(scores, (steps - 2 - step) * kBlockCols, consumer.lane);
    softmax.take<false>(scores);
    softmax.rescale(output);
  }
  consumer.release_query();
}

// The next Q K^T and this P V are both under way while the softmax is computed.
template <class Timeline>
__device__ __forceinline__ void attend_overlapped(Consumer& consumer, Timeline& timeline,
                                                  const Tile& tile, int steps, int valid,
                                                  const Diagonal& diagonal, Output& output,
                                                  Softmax& softmax) {
  Scores scores;
  Weights weights;
  begin(consumer, timeline, tile, steps, valid, diagonal, scores, softmax);
  pack_weights(weights, scores);
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; ++i) output[i] = 0.0f;
#pragma unroll 1
  for (int step = kCausal ? diagonal.first() + 1 : 1; step < steps; ++step) {
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
    diagonal.mask(scores, (steps - 1 - step) * kBlockCols, consumer.lane);
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

// The first `steps` of a tile's `count` steps, of which this warpgroup has nothing to compute: it only
// takes part in the barriers, and leaves the tensor cores to the others.
template <class Timeline>
__device__ __forceinline__ void stand_by(Consumer& consumer, Timeline& timeline, const Tile& tile,
                                         int steps, int count) {
  timeline.enter(Activity::stand_by);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    consumer.await(kKeys, consumer.keys);
    if (step != 0) {
      take_turn(consumer.group);
      pass_turn(consumer.group);
    }
    consumer.release(kKeys, consumer.keys, tile, step, count);
    consumer.await(kValues, consumer.values);
    consumer.release(kValues, consumer.values, tile, step, count);
  }
}

// The rows of this warpgroup are beyond the sequence.
template <class Timeline>
__device__ __forceinline__ void sit_out(Consumer& consumer, Timeline& timeline, const Tile& tile,
                                        int steps) {
  stand_by(consumer, timeline, tile, steps, steps);
  // One thread releases the query for all warps; none of them may still have to see it arrive.
  if constexpr (kPersistent && !kEarlyRelease) group_sync(consumer.group);
  consumer.release_query();
}

}  // namespace flash_attention_hopper
