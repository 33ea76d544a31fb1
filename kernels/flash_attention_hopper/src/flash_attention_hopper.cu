// The launcher that ctypes calls, its guards, and the descriptions of the tensors for TMA.
#include <cmath>
#include <cuda_runtime.h>

#include "../../attention/src/device.cuh"
#include "kernel.cuh"

namespace flash_attention_hopper {
namespace {

// Reasons that CUDA has no code for; CUDA's own codes are positive.
enum Refusal : int {
  kNoSizes = -1,
  kCapability = -2,
  kTooManyTiles = -3,
  kNoEncoder = -4,
  kNotEncoded = -5,
};

using Encoder = decltype(&cuTensorMapEncodeTiled);

int refuse_sizes(const Problem& problem) {
  if (problem.batch < 1 || problem.seq_len < 1 || problem.heads < 1) return kNoSizes;
  // Half of what an int holds: the sums of rows and of tiles in tiles.cuh must not overflow.
  constexpr int64_t kMost = INT32_MAX / 2;
  if (problem.seq_len > kMost) return kTooManyTiles;
  const int64_t tiles =
      static_cast<int64_t>(problem.row_blocks()) * problem.heads * problem.batch;
  return tiles > kMost ? kTooManyTiles : 0;
}

int multiprocessors(int* count) {
  int device = 0;
  int capability = 0;
  const int error = find_device(&device, &capability);
  if (error != cudaSuccess) return error;
  if (capability != 9) return kCapability;  // Machine code for sm_90a runs nowhere else.
  return cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device);
}

// From the driver at run time: libraries of variants do not link against libcuda.
int find_encoder(Encoder* encoder) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) return error;
  if (found != cudaDriverEntryPointSuccess) return kNoEncoder;
  *encoder = reinterpret_cast<Encoder>(entry);
  return 0;
}

// Describes a tensor (batch, seq_len, heads, d), or with `heads_first` (batch, heads, seq_len, d), as
// tensor_copy.cuh says, for tiles of `rows` rows.
int describe_tensor(Encoder encoder, CUtensorMap* map, const void* tensor, const Problem& problem,
                    int rows, bool heads_first) {
  const auto size = [](int64_t value) { return static_cast<cuuint64_t>(value); };
  const int64_t row = kHeadDim * kElementBytes;
  const int64_t token = heads_first ? row : problem.heads * row;
  const int64_t head = heads_first ? problem.seq_len * row : row;
  const cuuint64_t sizes[] = {kPanelCols, size(problem.seq_len), kPanels, size(problem.heads),
                              size(problem.batch)};
  const cuuint64_t strides[] = {size(token), kPanelRowBytes, size(head),
                                size(row * problem.heads * problem.seq_len)};
  const cuuint32_t box[] = {kPanelCols, static_cast<cuuint32_t>(rows), kPanels, 1, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1, 1};
  const CUresult result =
      encoder(map, kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 5,
              const_cast<void*>(tensor), sizes, strides, box, steps,
              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? 0 : kNotEncoded;
}

int describe_tensors(Maps* maps, const void* q, const void* k, const void* v, void* o,
                     const Problem& problem, bool kv_heads_first) {
  Encoder encoder = nullptr;
  int refusal = find_encoder(&encoder);
  const auto describe = [&](CUtensorMap* map, const void* tensor, int rows, bool heads_first) {
    if (refusal == 0) refusal = describe_tensor(encoder, map, tensor, problem, rows, heads_first);
  };
  describe(&maps->query, q, kGroupRows, false);
  describe(&maps->keys, k, kBlockCols, kv_heads_first);
  describe(&maps->values, v, kBlockCols, kv_heads_first);
  describe(&maps->output, o, kGroupRows, false);
  return refusal;
}

}  // namespace
}  // namespace flash_attention_hopper

// Tensors are contiguous (batch, seq_len, heads, d_head) on the current device, aligned to 16 bytes;
// with kv_heads_first, k and v are (batch, heads, seq_len, d_head). Returns 0, a code of cudaError_t, or a negative code of a guard;
// flash_attention_hopper_error_string has the words.
extern "C" int flash_attention_hopper_launch(const void* q, const void* k, const void* v, void* o,
                                             int batch, int seq_len, int heads,
                                             int kv_heads_first, void* stream) {
  using namespace flash_attention_hopper;
  const Problem problem{batch, seq_len, heads};
  int blocks = 0;
  Maps maps;
  int refusal = refuse_sizes(problem);
  if (refusal == 0) refusal = multiprocessors(&blocks);
  if (refusal == 0) refusal = describe_tensors(&maps, q, k, v, o, problem, kv_heads_first != 0);
  if (refusal != 0) return refusal;
  // More than 48 KiB of shared memory a kernel must ask for.
  const cudaError_t error =
      cudaFuncSetAttribute(flash_attention_hopper_forward,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  const int tiles = problem.tiles();
  const int grid = kPersistent && blocks < tiles ? blocks : tiles;
  const float scale = kLog2E / std::sqrt(static_cast<float>(kHeadDim));
  flash_attention_hopper_forward<<<grid, kThreads, kSharedBytes,
                                   static_cast<cudaStream_t>(stream)>>>(maps, problem, scale, o);
  return cudaGetLastError();
}

extern "C" const char* flash_attention_hopper_error_string(int code) {
  using namespace flash_attention_hopper;
  switch (code) {
    case kNoSizes: return "batch, seq_len and heads must be at least 1";
    case kCapability: return "the device is not of compute capability 9.0";
    case kTooManyTiles: return "there are more tiles than the kernel can count";
    case kNoEncoder: return "the driver has no cuTensorMapEncodeTiled";
    case kNotEncoded: return "cuTensorMapEncodeTiled refused a tensor";
    default: return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
}
