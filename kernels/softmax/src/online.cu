// One block per row: one pass for maximum and sum together, one pass that normalises.
#include "launcher.cuh"
#include "online_row.cuh"

namespace softmax {

template <typename T>
__global__ void __launch_bounds__(BLOCK_SIZE)
    softmax_online(const T* in, T* out, long long packs) {
  const long long start = blockIdx.x * packs * VECTOR_WIDTH;
  online_row<T, VECTOR_WIDTH, BLOCK_SIZE, BLOCK_SIZE>(in + start, out + start, packs, true);
}

template <typename T>
cudaError_t launch(const T* in, T* out, Shape shape, cudaStream_t stream) {
  if (!launchable(shape, 1, VECTOR_WIDTH)) return cudaErrorInvalidValue;
  softmax_online<T><<<blocks_for(shape, 1), BLOCK_SIZE, 0, stream>>>(
      in, out, shape.columns / VECTOR_WIDTH);
  return cudaGetLastError();
}

}  // namespace softmax
