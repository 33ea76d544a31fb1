// Starts the kernel PROFILER_KERNEL of the file that is included before this one.
//
// The compiler knows the types of the kernel's parameters: addresses are passed as they are and
// numbers converted to what the kernel takes, so that nobody has to describe them a second time.

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

struct __half;
struct __nv_bfloat16;

namespace profiler_launcher {

struct Argument {
  long long whole;  // an address, or a whole number
  double real;
};

template <class T>
T value_of(const Argument& argument) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(argument.whole);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return static_cast<T>(argument.whole);
  } else {
    static_assert(std::is_constructible_v<T, double>,
                  "a parameter of the kernel is neither a pointer nor a number");
    return static_cast<T>(argument.real);
  }
}

// Kind and bytes of a number (f4: float, g2: bfloat16, i8: long long); `?` for anything else.
template <class T>
std::string number() {
  if constexpr (std::is_same_v<T, bool>) return "b1";
  else if constexpr (std::is_same_v<T, __half>) return "f2";
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return "g2";
  else if constexpr (std::is_floating_point_v<T>) return "f" + std::to_string(sizeof(T));
  else if constexpr (std::is_integral_v<T>)
    return (std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T));
  else return "?";
}

template <class T>
std::string parameter() {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_pointer_v<Plain>)
    return "*" + number<std::remove_cv_t<std::remove_pointer_t<Plain>>>();
  else
    return number<Plain>();
}

template <class... P>
std::string parameters(void (*)(P...)) {
  static_assert(sizeof...(P) == PROFILER_ARGUMENTS,
                "the kernel has another number of parameters than it is given arguments");
  std::string text;
  ((text += parameter<P>() + " "), ...);
  return text;
}

template <class... P, std::size_t... I>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared,
                   cudaStream_t stream, const Argument* arguments, std::index_sequence<I...>) {
  std::tuple<P...> values{value_of<P>(arguments[I])...};
  void* addresses[] = {static_cast<void*>(&std::get<I>(values))..., nullptr};
  return cudaLaunchKernel(kernel, grid, block, addresses, shared, stream);
}

}  // namespace profiler_launcher

// Its relocation says which kernel of the file is the one that is started.
extern "C" __attribute__((used, section(".data.rel.ro.profiler_kernel")))
const void* const profiler_kernel = reinterpret_cast<const void*>(PROFILER_KERNEL);

extern "C" const char* profiler_error_string(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

extern "C" const char* profiler_parameters() {
  static const std::string text = profiler_launcher::parameters(PROFILER_KERNEL);
  return text.c_str();
}

extern "C" int profiler_allow_shared(int bytes) {
  return cudaFuncSetAttribute(PROFILER_KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

extern "C" int profiler_launch(const unsigned* grid, const unsigned* block, std::size_t shared,
                               void* stream, const profiler_launcher::Argument* arguments) {
  return profiler_launcher::launch(
      PROFILER_KERNEL, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), shared,
      static_cast<cudaStream_t>(stream), arguments,
      std::make_index_sequence<PROFILER_ARGUMENTS>());
}
