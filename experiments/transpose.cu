// Transposes of a row-major matrix, as one would write them one after the other.

__global__ void transpose_naive(const float* in, float* out, int rows, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}

// One tile through shared memory, so that reads and writes are coalesced. With PAD = 0 the threads
// of a warp read one column of the tile out of a single bank.
template <int TILE, int PAD>
__global__ void transpose_tiled(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[TILE][TILE + PAD];
  int column = blockIdx.x * TILE + threadIdx.x;
  int first = blockIdx.y * TILE;
  for (int i = threadIdx.y; i < TILE; i += blockDim.y)
    if (first + i < rows && column < columns) tile[i][threadIdx.x] = in[(first + i) * columns + column];
  __syncthreads();
  int row = first + threadIdx.x;
  first = blockIdx.x * TILE;
  for (int i = threadIdx.y; i < TILE; i += blockDim.y)
    if (first + i < columns && row < rows) out[(first + i) * rows + row] = tile[threadIdx.x][i];
}
