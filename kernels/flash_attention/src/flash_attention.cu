// The launcher that ctypes calls, and its guards.
#include <cmath>

#include "../../attention/src/device.cuh"
#include "kernel.cuh"

namespace flash_attention {
namespace {

// Reasons that CUDA has no code for; CUDA's own codes are positive.
enum Refusal : int {
  kNoSizes = -1,
  kRowsDoNotDivide = -2,
  kColsDoNotDivide = -3,
  kCapability = -4,
  kSharedMemory = -5,
  kGrid = -6,
  kHeads = -7,
};

constexpr int kMostGridYZ = 65535;  // CUDA C++ programming guide, technical specifications

int refuse_sizes(int batch, int seq_len, int heads) {
  if (batch < 1 || seq_len < 1 || heads < 1) return kNoSizes;
  if (seq_len % kBlockRows != 0) return kRowsDoNotDivide;
  if (seq_len % kBlockCols != 0) return kColsDoNotDivide;
  if (heads > kMostGridYZ || batch > kMostGridYZ) return kGrid;
  if (kStaticStride && heads != kStaticHeads) return kHeads;
  return 0;
}

int refuse_device() {
  int device = 0;
  int capability = 0;
  int most_shared = 0;
  int error = find_device(&device, &capability);
  if (error != cudaSuccess) return error;
  if (capability < 8) return kCapability;
  error = cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  return kSharedBytes > most_shared ? kSharedMemory : 0;
}

}  // namespace
}  // namespace flash_attention

// Tensors are contiguous (batch, seq_len, heads, d_head) on the current device. Returns 0, a code
// of cudaError_t, or a negative code of a guard; flash_attention_error_string has the words.
extern "C" int flash_attention_launch(const void* q, const void* k, const void* v, void* o,
                                      int batch, int seq_len, int heads, void* stream) {
  using namespace flash_attention;
  int refusal = refuse_sizes(batch, seq_len, heads);
  if (refusal == 0) refusal = refuse_device();
  if (refusal != 0) return refusal;
  // More than 48 KiB of shared memory a kernel must ask for.
  const cudaError_t error = cudaFuncSetAttribute(
      flash_attention_forward, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  const float scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim));
  const dim3 grid(seq_len / kBlockRows, heads, batch);
  flash_attention_forward<<<grid, kThreads, kSharedBytes, static_cast<cudaStream_t>(stream)>>>(
      q, k, v, o, seq_len, heads, scale);
  return cudaGetLastError();
}

extern "C" const char* flash_attention_error_string(int code) {
  using namespace flash_attention;
  switch (code) {
    case kNoSizes: return "batch, seq_len and heads must be at least 1";
    case kRowsDoNotDivide: return "seq_len is no multiple of B_r";
    case kColsDoNotDivide: return "seq_len is no multiple of B_c";
    case kCapability: return "the device has a compute capability below 8.0";
    case kSharedMemory: return "the tiles need more shared memory than the device has for a block";
    case kGrid: return "heads and batch must be at most 65535";
    case kHeads: return "this step of the ladder is for 16 heads";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}
