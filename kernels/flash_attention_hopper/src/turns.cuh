// Ping-pong: consumers start their products in turns, so that one computes its softmax while the
// other has the tensor cores.
#pragma once

#include "barrier.cuh"

namespace flash_attention_hopper {

constexpr int kTurnThreads = 2 * kGroupThreads;  // those that wait, and those that pass it on

__device__ __forceinline__ void pass_turn(int group) {
  if constexpr (kPingPong) {
    named_arrive(kTurnBarrier + (group + 1) % kConsumers, kTurnThreads);
  }
}

__device__ __forceinline__ void take_turn(int group) {
  if constexpr (kPingPong) named_sync(kTurnBarrier + group, kTurnThreads);
}

// The first consumer has the first turn: as if the last one had passed it on.
__device__ __forceinline__ void open_turns(int group) {
  if (group == kConsumers - 1) pass_turn(group);
}

// Takes the turn that is left over, so that no barrier ends half full.
__device__ __forceinline__ void close_turns(int group) {
  if (group == 0) take_turn(group);
}

}  // namespace flash_attention_hopper
