// Pairs of more.yaml whose planted kernel gives the work to a narrow pipe, or to no thread.
#include "common.cuh"

namespace why {

constexpr int kThreads = 256;

// The pipe XU takes 8 cycles of a scheduler or more for an instruction of a warp, and is the limit
// from about half of the steps on: the weaker forms have 4, 5 and 6 of 8.
constexpr int kStepsOnXu = !PLANTED ? 0 : STRENGTH == 8 ? 8 : 4 + STRENGTH / 2;

__device__ __forceinline__ constexpr bool is_planted_on_xu(int step) { return step < kStepsOnXu; }

// special_functions. Sums of sin(angle) * cos(angle) of angles that are 2^-10 apart. Plain, a
// rotation by that angle gives the next pair from the last (4 multiply-adds); planted, the pipe of
// special functions computes both for each angle, 16 threads a cycle: 16 cycles of a scheduler for
// a warp, against 5 or 6 instructions. 16 warps on a scheduler, in 4 waves, of 768 angles take 0.15
// ms on an H200, planted 0.4. Angles stay between 0.25 and 1.25, where both are positive. Shown by
// the busy pipe XU.
constexpr float kAngle = 0.0009765625f;
constexpr float kSine = 0.00097656234478963f;
constexpr float kCosine = 0.99999952316287993f;

__global__ void __launch_bounds__(kThreads)
    special_functions(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float angle = 0.25f * input[thread];
  float sine = __sinf(angle);
  float cosine = __cosf(angle);
  float sum = 0.0f;
#pragma unroll 1
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      sum = fmaf(sine, cosine, sum);
      if (is_planted_on_xu(k)) {
        const float next = angle + static_cast<float>(k + 1) * kAngle;
        sine = __sinf(next);
        cosine = __cosf(next);
      } else {
        const float next = fmaf(sine, kCosine, cosine * kSine);
        cosine = fmaf(cosine, kCosine, -(sine * kSine));
        sine = next;
      }
    }
    angle += 8 * kAngle;
  }
  output[thread] = sum;
}

// conversions. The sum of the rounded values of a chain. Plain, adding 1.5 * 2^23 puts the rounded
// value into the low bits of the float; planted, it is converted to a 64-bit integer, on a pipe of
// 16 threads a cycle: 8 cycles of a scheduler for a warp, against 3 instructions. (Not to one of 32
// bits, for which the programming guide states another width.) 16 warps on a scheduler, in 4 waves,
// of 1536 steps take 0.15 ms on an H200, planted 0.4. Shown by the busy pipe XU.
constexpr float kScale = 1024.0f;
constexpr float kShift = 12582912.0f;
constexpr int kShiftBits = 0x4b400000;

__global__ void __launch_bounds__(kThreads)
    conversions(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float value = kScale * input[thread];
  long long converted = 0;
  int shifted = 0;
#pragma unroll 1
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      value = fmaf(value, FACTOR, kScale * ADDEND);
      if (is_planted_on_xu(k)) {
        converted += __float2ll_rn(value);
      } else {
        shifted += __float_as_int(value + kShift) - kShiftBits;
      }
    }
  }
  output[thread] = static_cast<float>(converted + shifted);
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
  const float addend = ADDEND * static_cast<float>(kind + 1);
#pragma unroll 1
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (is_planted(j)) {
#pragma unroll
        for (int k = 0; k < kKinds; ++k) value = step_if(kind == k, value, ADDEND * (k + 1));
      } else {
        value = fmaf(value, FACTOR, addend);
      }
    }
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
