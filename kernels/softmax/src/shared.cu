// One block per row. The row is read once into shared memory, where it stays for the three steps;
// a row that does not fit is read again from device memory.
#include "launcher.cuh"
#include "reduce.cuh"

namespace softmax {

constexpr size_t kFreeShared = 48 * 1024;  // More than this a kernel must ask for.

template <typename T, bool CACHED>
__global__ void __launch_bounds__(BLOCK_SIZE)
    softmax_shared(const T* in, T* out, long long packs) {
  using Packed = Pack<T, VECTOR_WIDTH>;
  extern __shared__ __align__(16) unsigned char cache_bytes[];
  Packed* cache = reinterpret_cast<Packed*>(cache_bytes);
  const T* row_in = in + blockIdx.x * packs * VECTOR_WIDTH;
  T* row_out = out + blockIdx.x * packs * VECTOR_WIDTH;
  // A thread reads back only what it wrote itself: the cache needs no barrier.
  const auto fetch = [&](long long p) {
    if constexpr (CACHED) return cache[p];
    return load<T, VECTOR_WIDTH>(row_in, p);
  };

  float maximum = Max::identity();
#pragma unroll 4
  for (long long p = threadIdx.x; p < packs; p += BLOCK_SIZE) {
    const Packed pack = load<T, VECTOR_WIDTH>(row_in, p);
    if constexpr (CACHED) cache[p] = pack;
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) maximum = fmaxf(maximum, to_float(pack.element[i]));
  }
  maximum = reduce_tree<Max, BLOCK_SIZE>(maximum);

  float sum = Sum::identity();
#pragma unroll 4
  for (long long p = threadIdx.x; p < packs; p += BLOCK_SIZE) {
    const Packed pack = fetch(p);
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) sum += fast_exp(to_float(pack.element[i]) - maximum);
  }
  const float scale = 1.0f / reduce_tree<Sum, BLOCK_SIZE>(sum);

#pragma unroll 4
  for (long long p = threadIdx.x; p < packs; p += BLOCK_SIZE) {
    Packed pack = fetch(p);
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) {
      pack.element[i] = from_float<T>(fast_exp(to_float(pack.element[i]) - maximum) * scale);
    }
    store<T, VECTOR_WIDTH>(row_out, p, pack);
  }
}

// Lets a block of `kernel` ask for `bytes` of dynamic shared memory; `fits` says whether it may.
template <typename Kernel>
cudaError_t allow_shared(Kernel kernel, size_t bytes, bool* fits) {
  int device = 0;
  int most = 0;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  const size_t total = bytes + attributes.sharedSizeBytes;
  *fits = total <= static_cast<size_t>(most);
  if (!*fits || total <= kFreeShared) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

template <typename T>
cudaError_t launch(const T* in, T* out, Shape shape, cudaStream_t stream) {
  if (!launchable(shape, 1, VECTOR_WIDTH)) return cudaErrorInvalidValue;
  const unsigned blocks = blocks_for(shape, 1);
  const long long packs = shape.columns / VECTOR_WIDTH;
  const size_t row_bytes = shape.columns * sizeof(T);
  bool fits = false;
  const cudaError_t error = allow_shared(softmax_shared<T, true>, row_bytes, &fits);
  if (error != cudaSuccess) return error;
  if (fits) {
    softmax_shared<T, true><<<blocks, BLOCK_SIZE, row_bytes, stream>>>(in, out, packs);
  } else {
    softmax_shared<T, false><<<blocks, BLOCK_SIZE, 0, stream>>>(in, out, packs);
  }
  return cudaGetLastError();
}

}  // namespace softmax
