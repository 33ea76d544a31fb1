// The online algorithm for one row: maximum and sum in one pass, then a pass that normalises.
#pragma once

#include "reduce.cuh"

namespace softmax {

// Adds one pack: one rescaling for all of its elements.
template <typename T, int WIDTH>
__device__ __forceinline__ void add_pack(Running& running, const Pack<T, WIDTH>& pack) {
  float maximum = running.maximum;
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) maximum = fmaxf(maximum, to_float(pack.element[i]));
  running.rescale(maximum);
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) running.sum += fast_exp(to_float(pack.element[i]) - maximum);
}

// Every thread of the block must call it; `active` is false in groups beyond the last row.
template <typename T, int WIDTH, int BLOCK, int GROUP>
__device__ __forceinline__ void online_row(const T* row_in, T* row_out, long long packs, bool active) {
  const int thread = threadIdx.x % GROUP;
  Running running;
  if (active) {
#pragma unroll 4
    for (long long p = thread; p < packs; p += GROUP) {
      add_pack<T, WIDTH>(running, load<T, WIDTH>(row_in, p));
    }
  }
  running = reduce_running<BLOCK, GROUP>(running);
  if (!active) return;
  const float scale = 1.0f / running.sum;
#pragma unroll 4
  for (long long p = thread; p < packs; p += GROUP) {
    Pack<T, WIDTH> pack = load<T, WIDTH>(row_in, p);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
      pack.element[i] =
          from_float<T>(fast_exp(to_float(pack.element[i]) - running.maximum) * scale);
    }
    store<T, WIDTH>(row_out, p, pack);
  }
}

}  // namespace softmax
