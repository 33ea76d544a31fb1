// Pairs of more.yaml whose planted kernel gives the work to a narrow pipe, or to no thread.
#include "common.cuh"

namespace why {

constexpr int kThreads = 256;

// special_functions. Sums of sin(angle) * cos(angle) of angles that are 2^-10 apart. Plain, a
// rotation by that angle gives the next pair from the last (4 multiply-adds); planted, the pipe of
// special functions computes both for each angle, 16 threads a cycle: 16 cycles of a scheduler for
// a warp, against 5 or 6 instructions. 16 warps on a scheduler, in 4 waves, of 768 angles take 0.15
// ms on an H200, planted 0.4. Angles stay between 0.25 and 1.25, where both are positive. Shown by
// the busy pipe XU.
[[maybe_unused]] constexpr float kAngle = 0.0009765625f;
[[maybe_unused]] constexpr float kSine = 0.00097656234478963f;
[[maybe_unused]] constexpr float kCosine = 0.99999952316287993f;

__global__ void __launch_bounds__(kThreads)
    special_functions(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float angle = 0.25f * input[thread];
  float sine = __sinf(angle);
  float cosine = __cosf(angle);
  float sum = 0.0f;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) {
    sum = fmaf(sine, cosine, sum);
#if PLANTED
    angle += kAngle;
    sine = __sinf(angle);
    cosine = __cosf(angle);
#else
    const float next = fmaf(sine, kCosine, cosine * kSine);
    cosine = fmaf(cosine, kCosine, -(sine * kSine));
    sine = next;
#endif
  }
  output[thread] = sum;
}

// conversions. The sum of the rounded values of a chain. Plain, adding 1.5 * 2^23 puts the rounded
// value into the low bits of the float; planted, it is converted to a 64-bit integer, on a pipe of
// 16 threads a cycle: 8 cycles of a scheduler for a warp, against 3 instructions. (Not to one of 32
// bits, for which the programming guide states another width.) 16 warps on a scheduler, in 4 waves,
// of 1536 steps take 0.15 ms on an H200, planted 0.4. Shown by the busy pipe XU.
constexpr float kScale = 1024.0f;
[[maybe_unused]] constexpr float kShift = 12582912.0f;
[[maybe_unused]] constexpr int kShiftBits = 0x4b400000;

__global__ void __launch_bounds__(kThreads)
    conversions(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float value = kScale * input[thread];
#if PLANTED
  long long sum = 0;
#else
  int sum = 0;
#endif
#pragma unroll 8
  for (int i = 0; i < steps; ++i) {
    value = fmaf(value, FACTOR, kScale * ADDEND);
#if PLANTED
    sum += __float2ll_rn(value);
#else
    sum += __float_as_int(value + kShift) - kShiftBits;
#endif
  }
  output[thread] = static_cast<float>(sum);
}

// predicated_threads. Elements are of four kinds in turn, each with another addend. Plain, a thread
// picks its addend once; planted, each step has a multiply-add for each kind, of which predicates
// switch three off, as compilers make it of short branches (here the predicates are written out, so
// that no compiler sees through them). 16 warps on a scheduler in 2 waves of 6144 steps take 0.1 ms
// on an H200, planted 4 times as long. Shown by threads that are not predicated off (a quarter),
// while all are active; by 4 times the instructions.
constexpr int kKinds = 4;

__device__ __forceinline__ float step_if(bool on, float value, float addend) {
  asm("{\n"
      ".reg .pred on;\n"
      "setp.ne.s32 on, %1, 0;\n"
      "@on fma.rn.f32 %0, %0, %2, %3;\n"
      "}\n"
      : "+f"(value)
      : "r"(static_cast<int>(on)), "f"(FACTOR), "f"(addend));
  return value;
}

__global__ void __launch_bounds__(kThreads)
    predicated_threads(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  const int kind = thread % kKinds;
  float value = input[thread];
#if !PLANTED
  const float addend = ADDEND * static_cast<float>(kind + 1);
#endif
#pragma unroll 8
  for (int i = 0; i < steps; ++i) {
#if PLANTED
#pragma unroll
    for (int k = 0; k < kKinds; ++k) value = step_if(kind == k, value, ADDEND * (k + 1));
#else
    value = fmaf(value, FACTOR, addend);
#endif
  }
  output[thread] = value;
}

}  // namespace why

WHY_LAUNCHER(special_functions) {
  why::special_functions<<<outputs / why::kThreads, why::kThreads, 0,
                           static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(conversions) {
  why::conversions<<<outputs / why::kThreads, why::kThreads, 0,
                     static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(predicated_threads) {
  why::predicated_threads<<<outputs / why::kThreads, why::kThreads, 0,
                            static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
