// Pairs whose planted kernel issues more instructions for the same result, or waits between them.
#include "common.cuh"

namespace why {

constexpr int kThreads = 256;

// Another chain for each kind of element, so that the compiler cannot make one loop of the four.
template <int kKind>
__device__ __noinline__ float chain_of_kind(float value, int steps) {
  constexpr float kAddend = ADDEND * (kKind + 1);
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnroll) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) value = fmaf(value, FACTOR, kAddend);
  }
  return value;
}

// divergence. Elements are of four kinds in turn. Plain, a warp takes elements of one kind;
// planted, it takes 32 in a row, and goes through the loops of all four kinds with 8 of its threads
// each. Shown by threads per executed instruction (8 of 32) and by 4 times the instructions.
constexpr int kKinds = 4;

__global__ void __launch_bounds__(kThreads)
    divergence(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = blockIdx.x * kThreads + warp / kKinds * kKinds * kWarp;
  const int part = warp % kKinds;
  const int index = group + (PLANTED ? part * kWarp + lane : lane * kKinds + part);
  float value = input[index];
  switch (index % kKinds) {
    case 0: value = chain_of_kind<0>(value, steps); break;
    case 1: value = chain_of_kind<1>(value, steps); break;
    case 2: value = chain_of_kind<2>(value, steps); break;
    default: value = chain_of_kind<3>(value, steps);
  }
  output[index] = value;
}

// dependent_chain. 8 products a step, added up in 8 sums, or (planted) in one: then each
// multiply-add waits 4 cycles for the one before. There are 2 warps on a scheduler, as many as
// there is work for, so that others cannot fill the gaps. Shown by warps that wait for wait
// (results of fixed latency), with the same instructions.
constexpr int kFactors = 8;
constexpr int kTable = 4096;

template <int kSums>
__device__ __forceinline__ float add_products(const float (&factors)[kFactors], float first,
                                              int steps) {
  float sums[kSums] = {first};
#pragma unroll 8
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int k = 0; k < kFactors; ++k) {
      sums[k % kSums] = fmaf(factors[k], factors[(k + 1) % kFactors], sums[k % kSums]);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kSums; ++k) sum += sums[k];
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    dependent_chain(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float factors[kFactors];
#pragma unroll
  for (int k = 0; k < kFactors; ++k) factors[k] = input[(thread + k) % kTable];
  // One after the other: steps of both forms at once would fill each other's gaps.
  const int planted = PLANTED ? steps / 8 * STRENGTH : 0;
  float sum = 0.0f;
  if (planted > 0) sum = add_products<1>(factors, sum, planted);
  if (planted < steps) sum = add_products<kFactors>(factors, sum, steps - planted);
  output[thread] = sum;
}

// fp64_arithmetic. The constants lack their `f`: each step converts its value to double, multiplies
// and adds there, and converts back. Shown by FP64 operations and conversions; the warps wait for
// math_pipe_throttle.
template <typename Constant>
__device__ __forceinline__ float step_by(float value) {
  constexpr Constant kFactor = FACTOR;
  constexpr Constant kAddend = ADDEND;
  return static_cast<float>(value * kFactor + kAddend);
}

__global__ void __launch_bounds__(kThreads)
    fp64_arithmetic(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float value = input[thread];
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnroll) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      value = is_planted(k) ? step_by<double>(value) : step_by<float>(value);
    }
  }
  output[thread] = value;
}

// excess_instructions. Walks round a table in strides. Plain, the position is moved on, and set
// back at the end of the table; planted, it is the remainder of a division in each step. Shown by
// executed instructions, most of them integer; the loads are the same.
constexpr int kLength = 1021;
constexpr unsigned kStride = 96;

__global__ void __launch_bounds__(kThreads)
    excess_instructions(const float* __restrict__ input, float* __restrict__ output, int steps,
                        unsigned length) {
  __shared__ float table[kLength];
  for (int i = threadIdx.x; i < length; i += kThreads) table[i] = input[i];
  __syncthreads();
  const unsigned thread = blockIdx.x * kThreads + threadIdx.x;
  unsigned position = thread % length;
  float sum = 0.0f;
#pragma unroll 4
  for (int i = 0; i < steps; ++i) {
    sum += table[position];
#if PLANTED
    position = (position + kStride) % length;
#else
    position += kStride;
    if (position >= length) position -= length;
#endif
  }
  output[thread] = sum;
}

}  // namespace why

WHY_LAUNCHER(divergence) {
  why::divergence<<<outputs / why::kThreads, why::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(dependent_chain) {
  why::dependent_chain<<<outputs / why::kThreads, why::kThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(fp64_arithmetic) {
  why::fp64_arithmetic<<<outputs / why::kThreads, why::kThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(excess_instructions) {
  why::excess_instructions<<<outputs / why::kThreads, why::kThreads, 0,
                             static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps, why::kLength);
  return cudaGetLastError();
}
