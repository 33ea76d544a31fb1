// What every softmax library exports: a C launcher that ctypes can call, and the words of an error.
#pragma once

#include <climits>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace softmax {

enum DType : int { kFloat16 = 0, kFloat32 = 1 };

// Rows and columns of a contiguous row-major matrix; softmax goes along the columns.
struct Shape {
  long long rows;
  long long columns;
};

inline bool launchable(Shape shape, int rows_per_block, int vector_width) {
  return shape.rows > 0 && shape.columns > 0 && shape.columns % vector_width == 0 &&
         (shape.rows + rows_per_block - 1) / rows_per_block <= INT_MAX;
}

inline unsigned blocks_for(Shape shape, int rows_per_block) {
  return static_cast<unsigned>((shape.rows + rows_per_block - 1) / rows_per_block);
}

// Each algorithm defines this once, for __half and float.
template <typename T>
cudaError_t launch(const T* in, T* out, Shape shape, cudaStream_t stream);

template <typename T>
cudaError_t launch_untyped(const void* in, void* out, Shape shape, void* stream) {
  return launch<T>(static_cast<const T*>(in), static_cast<T*>(out), shape,
                   static_cast<cudaStream_t>(stream));
}

}  // namespace softmax

extern "C" int softmax_launch(const void* in, void* out, long long rows, long long columns,
                              int dtype, void* stream) {
  const softmax::Shape shape{rows, columns};
  switch (dtype) {
    case softmax::kFloat16:
      return softmax::launch_untyped<__half>(in, out, shape, stream);
    case softmax::kFloat32:
      return softmax::launch_untyped<float>(in, out, shape, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

extern "C" const char* softmax_error_string(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
