// Three passes over device memory, one block per row, one element per access.
#include "launcher.cuh"
#include "reduce.cuh"

namespace softmax {

template <typename T>
__global__ void __launch_bounds__(BLOCK_SIZE)
    softmax_naive(const T* in, T* out, long long columns) {
  const T* row_in = in + blockIdx.x * columns;
  T* row_out = out + blockIdx.x * columns;

  float maximum = Max::identity();
  for (long long c = threadIdx.x; c < columns; c += BLOCK_SIZE) {
    maximum = fmaxf(maximum, to_float(row_in[c]));
  }
  maximum = reduce_tree<Max, BLOCK_SIZE>(maximum);

  float sum = Sum::identity();
  for (long long c = threadIdx.x; c < columns; c += BLOCK_SIZE) {
    sum += fast_exp(to_float(row_in[c]) - maximum);
  }
  const float scale = 1.0f / reduce_tree<Sum, BLOCK_SIZE>(sum);

  for (long long c = threadIdx.x; c < columns; c += BLOCK_SIZE) {
    row_out[c] = from_float<T>(fast_exp(to_float(row_in[c]) - maximum) * scale);
  }
}

template <typename T>
cudaError_t launch(const T* in, T* out, Shape shape, cudaStream_t stream) {
  if (!launchable(shape, 1, 1)) return cudaErrorInvalidValue;
  softmax_naive<T><<<blocks_for(shape, 1), BLOCK_SIZE, 0, stream>>>(in, out, shape.columns);
  return cudaGetLastError();
}

}  // namespace softmax
