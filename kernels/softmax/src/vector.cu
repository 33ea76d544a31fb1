// BLOCK_SIZE / ROWS_PER_BLOCK threads per row. The row is read once, with vector loads that are all
// in flight together, and stays in registers; a row that is too long for them goes the online way.
#include "launcher.cuh"
#include "online_row.cuh"

namespace softmax {

constexpr int kGroup = BLOCK_SIZE / ROWS_PER_BLOCK;

// Elements that one thread may hold as float. A block of 1024 threads leaves 64 registers a thread.
constexpr int kMostElements = BLOCK_SIZE >= 1024 ? 32 : 64;
constexpr int kMostPacks = kMostElements / VECTOR_WIDTH;

template <typename T, int PACKS>
__global__ void __launch_bounds__(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
    softmax_vector(const T* __restrict__ in, T* __restrict__ out, long long rows,
                   long long packs) {
  using Packed = Pack<T, VECTOR_WIDTH>;
  const long long row =
      static_cast<long long>(blockIdx.x) * ROWS_PER_BLOCK + threadIdx.x / kGroup;
  const int thread = threadIdx.x % kGroup;
  const bool active = row < rows;  // No early return: all threads meet at the barriers.
  const T* row_in = in + row * packs * VECTOR_WIDTH;
  T* row_out = out + row * packs * VECTOR_WIDTH;

  float value[PACKS][VECTOR_WIDTH];
#pragma unroll
  for (int k = 0; k < PACKS; ++k) {
    const int p = thread + k * kGroup;
    const bool inside = active && p < packs;
    Packed pack{};
    if (inside) pack = load<T, VECTOR_WIDTH>(row_in, p);
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) {
      value[k][i] = inside ? to_float(pack.element[i]) : -INFINITY;  // exp gives 0
    }
  }

  float maximum = Max::identity();
#pragma unroll
  for (int k = 0; k < PACKS; ++k) {
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) maximum = fmaxf(maximum, value[k][i]);
  }
  maximum = reduce_group<Max, BLOCK_SIZE, kGroup>(maximum);

  float sum = Sum::identity();
#pragma unroll
  for (int k = 0; k < PACKS; ++k) {
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH; ++i) {
      value[k][i] = fast_exp(value[k][i] - maximum);
      sum += value[k][i];
    }
  }
  const float scale = 1.0f / reduce_group<Sum, BLOCK_SIZE, kGroup>(sum);

#pragma unroll
  for (int k = 0; k < PACKS; ++k) {
    const int p = thread + k * kGroup;
    if (active && p < packs) {
      Packed pack;
#pragma unroll
      for (int i = 0; i < VECTOR_WIDTH; ++i) pack.element[i] = from_float<T>(value[k][i] * scale);
      store_streaming<T, VECTOR_WIDTH>(row_out, p, pack);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
    softmax_vector_long(const T* in, T* out, long long rows, long long packs) {
  const long long row =
      static_cast<long long>(blockIdx.x) * ROWS_PER_BLOCK + threadIdx.x / kGroup;
  const long long start = row * packs * VECTOR_WIDTH;
  online_row<T, VECTOR_WIDTH, BLOCK_SIZE, kGroup>(in + start, out + start, packs, row < rows);
}

// Launches the smallest kernel that holds the row: PACKS is 1, 2, 4, ... up to kMostPacks.
template <typename T, int PACKS>
void launch_smallest(const T* in, T* out, long long rows, long long packs, unsigned blocks,
                     cudaStream_t stream) {
  if constexpr (PACKS > kMostPacks) {
    softmax_vector_long<T><<<blocks, BLOCK_SIZE, 0, stream>>>(in, out, rows, packs);
  } else if (packs <= static_cast<long long>(PACKS) * kGroup) {
    softmax_vector<T, PACKS><<<blocks, BLOCK_SIZE, 0, stream>>>(in, out, rows, packs);
  } else {
    launch_smallest<T, PACKS * 2>(in, out, rows, packs, blocks, stream);
  }
}

template <typename T>
cudaError_t launch(const T* in, T* out, Shape shape, cudaStream_t stream) {
  if (!launchable(shape, ROWS_PER_BLOCK, VECTOR_WIDTH)) return cudaErrorInvalidValue;
  launch_smallest<T, 1>(in, out, shape.rows, shape.columns / VECTOR_WIDTH,
                        blocks_for(shape, ROWS_PER_BLOCK), stream);
  return cudaGetLastError();
}

}  // namespace softmax
