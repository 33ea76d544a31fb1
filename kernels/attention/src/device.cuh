// What a launcher asks of the current device before it launches.
#pragma once

#include <cuda_runtime.h>

namespace attention {

// Finds the device and the first number of its compute capability; 0, or a code of cudaError_t.
inline int find_device(int* device, int* capability) {
  const cudaError_t error = cudaGetDevice(device);
  if (error != cudaSuccess) return error;
  return cudaDeviceGetAttribute(capability, cudaDevAttrComputeCapabilityMajor, *device);
}

}  // namespace attention
