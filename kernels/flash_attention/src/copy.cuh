// Tiles of Q, K and V from device memory to shared memory.
#pragma once

#include "swizzle.cuh"

namespace flash_attention {

__device__ __forceinline__ void copy_chunk_async(uint32_t shared, const char* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global)
               : "memory");
}

__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most PENDING of this thread's newest groups of copies are under way.
template <int PENDING>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ uint4 load_chunk(const char* global) {
  uint4 value;
  asm volatile("ld.global.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(global));
  return value;
}

__device__ __forceinline__ void store_shared(uint32_t shared, const uint4& value) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
}

// Rows of one head, `stride` bytes apart. The threads of a block take neighbouring chunks, so that
// a row is read in whole lines.
struct Rows {
  const char* thread_start;
  int64_t stride;

  __device__ __forceinline__ Rows(const void* head, int64_t stride_bytes) : stride(stride_bytes) {
    thread_start = static_cast<const char*>(head) + row() * stride + chunk() * kChunkBytes;
  }

  static __device__ __forceinline__ int row() { return threadIdx.x / kRowChunks; }
  static __device__ __forceinline__ int chunk() { return threadIdx.x % kRowChunks; }

  __device__ __forceinline__ void advance(int rows) { thread_start += rows * stride; }
};

// Starts (async) or makes (through registers) the copy of a tile of ROWS rows.
template <int ROWS>
__device__ __forceinline__ void copy_tile(uint32_t tile, const Rows& rows) {
  constexpr int kPassRows = kThreads / kRowChunks;
  constexpr int kPasses = ROWS / kPassRows;
  static_assert(kPasses * kPassRows == ROWS, "every thread copies the same number of chunks");
  if constexpr (kAsyncCopy) {
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int row = pass * kPassRows;
      copy_chunk_async(tile + tile_offset<ROWS>(Rows::row() + row, Rows::chunk()),
                       rows.thread_start + row * rows.stride);
    }
    copies_commit();
  } else {
    // Eight loads in flight hide the latency; all of them would cost too many registers.
    constexpr int kInFlight = kPasses < 8 ? kPasses : 8;
#pragma unroll
    for (int first = 0; first < kPasses; first += kInFlight) {
      uint4 value[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        value[i] = load_chunk(rows.thread_start + (first + i) * kPassRows * rows.stride);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int row = (first + i) * kPassRows;
        store_shared(tile + tile_offset<ROWS>(Rows::row() + row, Rows::chunk()), value[i]);
      }
    }
  }
}

// After it, all threads see the tiles whose copies were started before, and may overwrite those
// that were read before.
__device__ __forceinline__ void tiles_arrive() {
  if constexpr (kAsyncCopy) copies_wait<0>();
  __syncthreads();
}

}  // namespace flash_attention
