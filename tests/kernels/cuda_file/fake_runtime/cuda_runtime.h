// What the launcher takes from CUDA's runtime, on a CPU: a launch calls the kernel once for each
// thread, block by block, and notes what it was given. No shared memory, no __syncthreads.
#pragma once
#include <cstddef>
#include <cstdio>
#include <utility>
#define __global__
struct dim3 { unsigned x, y, z; dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };
static dim3 gridDim, blockDim, blockIdx, threadIdx;
typedef void* cudaStream_t;
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributeNonPortableClusterSizeAllowed };
enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorInvalidClusterSize = 912
};
struct cudaFuncAttributes { int maxThreadsPerBlock; };
static char noted[256];
static int allowed;
static const char* how = "";
static bool large_clusters;
extern "C" const char* noted_launch() { return noted; }

static const char* cudaGetErrorString(cudaError_t code) { return code ? "too much shared memory" : ""; }

template <class T>
cudaError_t cudaFuncSetAttribute(T*, int attribute, int value) {
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) return large_clusters = true, cudaSuccess;
  allowed = value;
  return value > 200000 ? cudaErrorInvalidValue : cudaSuccess;
}

static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void*) {
  of->maxThreadsPerBlock = 256;
  return cudaSuccess;
}

static cudaError_t cudaGetLastError() { return cudaSuccess; }

template <class... P, std::size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<P*>(arguments[I])...);
}

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream) {
  if (block.x * block.y * block.z > 256) return cudaErrorInvalidValue;
  if (grid.y == 16 && !large_clusters) return cudaErrorInvalidClusterSize;  // as of a kernel with such clusters
  std::snprintf(noted, sizeof noted, "grid %u %u %u block %u %u %u shared %zu allowed %d stream %zu%s",
                grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, allowed, (std::size_t)stream, how);
  gridDim = grid;
  blockDim = block;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x)
              call(kernel, arguments, std::make_index_sequence<sizeof...(P)>());
  return cudaSuccess;
}

template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream) {
  if (grid.x > 1000) return cudaErrorCooperativeLaunchTooLarge;
  how = " cooperative";
  const cudaError_t code = cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
  how = "";
  return code;
}
