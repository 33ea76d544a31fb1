// Loading and storing pieces of a row, and the one exponential that every algorithm uses.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace softmax {

// Finite, so that a thread without elements joins a reduction without making inf - inf.
constexpr float kLowest = -3.402823466e38f;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (sizeof(T) == 2) {
    return __float2half_rn(value);
  } else {
    return value;
  }
}

// exp(value) by the special function unit. All algorithms share it, so that they differ in how they
// move data and not in their arithmetic. Its error is about 2 ulp; results below 2^-126 become 0.
__device__ __forceinline__ float fast_exp(float value) {
  constexpr float kLog2E = 1.44269504088896341f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value * kLog2E));
  return result;
}

constexpr int pack_alignment(int bytes) { return bytes < 16 ? bytes : 16; }

// WIDTH neighbouring elements. The alignment makes the compiler move it with the widest accesses
// that it has (16 bytes); a larger pack takes several of them.
template <typename T, int WIDTH>
struct alignas(pack_alignment(sizeof(T) * WIDTH)) Pack {
  T element[WIDTH];
};

template <typename T, int WIDTH>
__device__ __forceinline__ Pack<T, WIDTH> load(const T* row, long long pack) {
  return reinterpret_cast<const Pack<T, WIDTH>*>(row)[pack];
}

template <typename T, int WIDTH>
__device__ __forceinline__ void store(T* row, long long pack, const Pack<T, WIDTH>& values) {
  reinterpret_cast<Pack<T, WIDTH>*>(row)[pack] = values;
}

// A store that marks its lines as the first to leave the cache: nobody reads the result here.
template <typename T, int WIDTH>
__device__ __forceinline__ void store_streaming(T* row, long long pack, const Pack<T, WIDTH>& values) {
  constexpr int kBytes = sizeof(Pack<T, WIDTH>);
  auto* target = reinterpret_cast<Pack<T, WIDTH>*>(row) + pack;
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      __stcs(reinterpret_cast<uint4*>(target) + i, reinterpret_cast<const uint4*>(&values)[i]);
    }
  } else if constexpr (kBytes == 8) {
    __stcs(reinterpret_cast<uint2*>(target), *reinterpret_cast<const uint2*>(&values));
  } else {
    *target = values;
  }
}

}  // namespace softmax
