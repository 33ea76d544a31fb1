// Loops whose length is an argument, so that one program can be made slower by a known amount.
#include <cuda_runtime.h>

// Registers and arithmetic only.
__global__ void compute(int iterations, int* done, float* sink) {
  float value = threadIdx.x;
  int i = 0;
  for (; i < iterations; ++i) {
#pragma unroll
    for (int step = 0; step < 16; ++step) value = fmaf(value, 1.0001f, 0.5f);
  }
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  done[thread] = i;
  if (value == -1.0f) sink[0] = value;  // never: keeps the loop
}

// Reads 16 bytes per thread and iteration, over and over the first `chunks` of them.
__global__ void stream(const float4* data, long long chunks, int iterations, int* done, float* sink) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  long long at = thread;
  int i = 0;
#pragma unroll 1  // a remainder would make the time jump with the number of iterations
  for (; i < iterations; ++i) {
    const float4 four = data[at];
    sum += four.x + four.y + four.z + four.w;
    at += stride;
    if (at >= chunks) at -= chunks;
  }
  done[thread] = i;
  if (sum == -1.0f) sink[0] = sum;  // never: keeps the loads
}

extern "C" int launch_compute(int blocks, int threads, int iterations, int* done, float* sink,
                              cudaStream_t queue) {
  compute<<<blocks, threads, 0, queue>>>(iterations, done, sink);
  return (int)cudaGetLastError();
}

extern "C" int launch_stream(const float4* data, long long chunks, int blocks, int threads,
                             int iterations, int* done, float* sink, cudaStream_t queue) {
  stream<<<blocks, threads, 0, queue>>>(data, chunks, iterations, done, sink);
  return (int)cudaGetLastError();
}
