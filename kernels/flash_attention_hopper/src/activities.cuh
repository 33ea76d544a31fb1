// What the warpgroups do, one thing after the other: the names of the in-kernel timeline.
#pragma once

#include <profiler/timeline.cuh>

#include "config.cuh"

namespace flash_attention_hopper {

PROFILER_ACTIVITIES(Activity, wait_for_slot, start_copy, wait_for_query, wait_for_keys,
                    wait_for_turn, start_scores, wait_for_values, start_output, wait_for_scores,
                    softmax, wait_for_output, rescale, stand_by, epilogue)
PROFILER_GROUPS("consumer 1, consumer 2, consumer 3, copies of K and V, copies of Q")
PROFILER_OPERATIONS(
    "Q K^T: start_scores to wait_for_scores; P V: start_output to wait_for_output")

// Numbers of the rows; a consumer's is its own.
constexpr int kKeysAndValuesRow = 3;
constexpr int kQueriesRow = 4;

}  // namespace flash_attention_hopper
