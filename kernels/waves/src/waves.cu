// Blocks that all do the same work on registers, and that a fixed number of fit on a multiprocessor:
// what a launch takes is then a matter of how many blocks it has.
#include <cuda_runtime.h>

namespace waves {

constexpr int kGranularity = 128;     // Shared memory is given out in pieces of this many bytes.
constexpr int kUnroll = 64 / CHAINS;  // 64 multiply-adds for every test whether the loop is over.

// CHAINS independent sums, each a chain of dependent multiply-adds: one chain leaves the pipeline
// waiting for its own result most of the time, four keep it busy with a single warp.
__global__ void __launch_bounds__(BLOCK_SIZE, BLOCKS_PER_SM)
    waves_chain(const float* __restrict__ start, unsigned starts, float* __restrict__ out,
                int steps, float factor, float addend) {
  const unsigned index = blockIdx.x * BLOCK_SIZE + threadIdx.x;
  const float first = start[index % starts];
  float value[CHAINS];
#pragma unroll
  for (int k = 0; k < CHAINS; ++k) value[k] = first + static_cast<float>(k);
#pragma unroll kUnroll
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int k = 0; k < CHAINS; ++k) value[k] = fmaf(value[k], factor, addend);
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < CHAINS; ++k) sum += value[k];
  out[index] = sum;
}

// Dynamic shared memory of a block, so large that BLOCKS_PER_SM of them fit and no more.
cudaError_t reserve(int device, int* bytes) {
  int on_sm = 0;
  int of_system = 0;
  int most = 0;
  cudaError_t error =
      cudaDeviceGetAttribute(&on_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&of_system, cudaDevAttrReservedSharedMemoryPerBlock, device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  const int share = (on_sm / BLOCKS_PER_SM - of_system) / kGranularity * kGranularity;
  *bytes = share < most ? share : most;
  error = cudaFuncSetAttribute(waves_chain, cudaFuncAttributeMaxDynamicSharedMemorySize, *bytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(waves_chain, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

}  // namespace waves

// What a wave is made of on this device. To be called before the first launch: it also reserves.
extern "C" int waves_shape(int* multiprocessors, int* blocks_per_sm, int* shared_bytes) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  error = waves::reserve(device, shared_bytes);
  if (error != cudaSuccess) return error;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks_per_sm, waves::waves_chain, BLOCK_SIZE,
                                                       *shared_bytes);
}

extern "C" int waves_launch(const float* start, int starts, float* out, int blocks, int steps,
                            float factor, float addend, int shared_bytes, void* stream) {
  if (starts < 1 || blocks < 1 || steps < 1) return cudaErrorInvalidValue;
  waves::waves_chain<<<blocks, BLOCK_SIZE, shared_bytes, static_cast<cudaStream_t>(stream)>>>(
      start, starts, out, steps, factor, addend);
  return cudaGetLastError();
}

extern "C" const char* waves_error_string(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
