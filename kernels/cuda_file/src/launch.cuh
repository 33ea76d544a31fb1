// What the launcher needs, in front of the user's file: whose macros it would not survive.
//
// The compiler knows the types of the kernel's parameters: addresses are passed as they are and
// numbers converted to what the kernel takes, so that nobody has to describe them a second time.

#pragma once

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

template <class Value>
Value value_of(const Argument& argument) {
  if constexpr (std::is_pointer_v<Value>) {
    return reinterpret_cast<Value>(argument.whole);
  } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
    return static_cast<Value>(argument.whole);
  } else {
    static_assert(std::is_constructible_v<Value, double>,
                  "a parameter of the kernel is neither a pointer nor a number");
    return static_cast<Value>(argument.real);
  }
}

// Kind and bytes of a number (f4: float, g2: bfloat16, i8: long long); `?` for anything else.
template <class Value>
std::string number() {
  if constexpr (std::is_same_v<Value, bool>) return "b1";
  else if constexpr (std::is_same_v<Value, __half>) return "f2";
  else if constexpr (std::is_same_v<Value, __nv_bfloat16>) return "g2";
  else if constexpr (std::is_floating_point_v<Value>) return "f" + std::to_string(sizeof(Value));
  else if constexpr (std::is_integral_v<Value>)
    return (std::is_signed_v<Value> ? "i" : "u") + std::to_string(sizeof(Value));
  else return "?";
}

template <class Value>
std::string parameter() {
  using Plain = std::remove_cv_t<Value>;
  if constexpr (std::is_pointer_v<Plain>)
    return "*" + number<std::remove_cv_t<std::remove_pointer_t<Plain>>>();
  else
    return number<Plain>();
}

template <class... Values>
std::string parameters(void (*)(Values...)) {
  static_assert(sizeof...(Values) == PROFILER_ARGUMENTS,
                "the kernel has another number of parameters than it is given arguments");
  std::string text;
  ((text += parameter<Values>() + " "), ...);
  return text;
}

template <class... Values, std::size_t... Places>
int launch_with(void (*kernel)(Values...), const unsigned* grid, const unsigned* block,
                std::size_t shared, void* stream, const Argument* arguments,
                std::index_sequence<Places...>) {
  std::tuple<Values...> values{value_of<Values>(arguments[Places])...};
  void* addresses[] = {static_cast<void*>(&std::get<Places>(values))..., nullptr};
  return cudaLaunchKernel(kernel, dim3(grid[0], grid[1], grid[2]),
                          dim3(block[0], block[1], block[2]), addresses, shared,
                          static_cast<cudaStream_t>(stream));
}

template <class... Values>
int launch(void (*kernel)(Values...), const unsigned* grid, const unsigned* block,
           std::size_t shared, void* stream, const Argument* arguments) {
  return launch_with(kernel, grid, block, shared, stream, arguments,
                     std::index_sequence_for<Values...>());
}

}  // namespace profiler_launcher
