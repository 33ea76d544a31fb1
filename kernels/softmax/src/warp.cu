// One warp per row: three passes over the row, reductions by shuffles, no shared memory, no barrier.
#include "launcher.cuh"
#include "reduce.cuh"

namespace softmax {

constexpr int kBlock = ROWS_PER_BLOCK * kWarp;

template <typename T>
__global__ void __launch_bounds__(kBlock)
    softmax_warp(const T* in, T* out, long long rows, long long packs) {
  using Packed = Pack<T, VECTOR_WIDTH>;
  const long long row =
      static_cast<long long>(blockIdx.x) * ROWS_PER_BLOCK + threadIdx.x / kWarp;
  if (row >= rows) return;  // Whole warps leave together.
  const int lane = threadIdx.x % kWarp;
  const T* row_in = in + row * packs * VECTOR_WIDTH;
  T* row_out = out + row * packs * VECTOR_WIDTH;

  float maximum = Max::identity();
#pragma unroll 4
  for (long long p = lane; p < packs; p += kWarp) {
    const Packed pack = load<T, VECTOR_WIDTH>(row_in, p);
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) maximum = fmaxf(maximum, to_float(pack.element[i]));
  }
  maximum = reduce_warp<Max>(maximum);

  float sum = Sum::identity();
#pragma unroll 4
  for (long long p = lane; p < packs; p += kWarp) {
    const Packed pack = load<T, VECTOR_WIDTH>(row_in, p);
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) sum += fast_exp(to_float(pack.element[i]) - maximum);
  }
  const float scale = 1.0f / reduce_warp<Sum>(sum);

#pragma unroll 4
  for (long long p = lane; p < packs; p += kWarp) {
    Packed pack = load<T, VECTOR_WIDTH>(row_in, p);
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) {
      pack.element[i] = from_float<T>(fast_exp(to_float(pack.element[i]) - maximum) * scale);
    }
    store<T, VECTOR_WIDTH>(row_out, p, pack);
  }
}

template <typename T>
cudaError_t launch(const T* in, T* out, Shape shape, cudaStream_t stream) {
  if (!launchable(shape, ROWS_PER_BLOCK, VECTOR_WIDTH)) return cudaErrorInvalidValue;
  softmax_warp<T><<<blocks_for(shape, ROWS_PER_BLOCK), kBlock, 0, stream>>>(
      in, out, shape.rows, shape.columns / VECTOR_WIDTH);
  return cudaGetLastError();
}

}  // namespace softmax
