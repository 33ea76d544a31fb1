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
                  "profiler: a parameter of the kernel is neither a pointer nor a number");
    return static_cast<Value>(argument.real);
  }
}

// What a number is: f (floating), g (bfloat16), i (signed), u (unsigned), b (bool), and its bytes;
// `?` for anything else, such as a struct or an 8-bit float.
struct Kind {
  char letter;
  int bytes;
};

constexpr Kind kind(const char* letter, int bytes) { return {*letter, bytes}; }

template <class Value>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<Value, bool>) return {'b', 1};
  else if constexpr (std::is_same_v<Value, __half>) return {'f', 2};
  else if constexpr (std::is_same_v<Value, __nv_bfloat16>) return {'g', 2};
  else if constexpr (std::is_floating_point_v<Value>) return {'f', sizeof(Value)};
  else if constexpr (std::is_integral_v<Value>)
    return {std::is_signed_v<Value> ? 'i' : 'u', sizeof(Value)};
  else return {'?', 0};
}

// f4: float, g2: bfloat16, i8: long long; `?` for what is no number.
template <class Value>
std::string number() {
  constexpr Kind kind = kind_of<Value>();
  return kind.letter + (kind.bytes == 0 ? "" : std::to_string(kind.bytes));
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
                "profiler: the kernel has another number of parameters than it is given arguments");
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

// Whether a kernel may read elements of a kind by a pointer to another.
//
// Unsigned numbers of the same size often stand for bits of whatever they are.
constexpr bool may_point_to(Kind pointee, Kind elements) {
  if (pointee.letter == '?') return true;
  if (pointee.bytes != elements.bytes) return false;
  return pointee.letter == elements.letter || pointee.letter == 'u' ||
         (pointee.letter == 'i' && elements.letter == 'u');
}

constexpr Kind NO_POINTER{'-', 0};
constexpr Kind UNKNOWN{'?', 0};

template <class Value>
constexpr Kind pointee_kind() {
  using Plain = std::remove_cv_t<Value>;
  if constexpr (std::is_pointer_v<Plain>)
    return kind_of<std::remove_cv_t<std::remove_pointer_t<Plain>>>();
  else
    return NO_POINTER;
}

// What the parameter at a place (from 1) points to; unknown where the number of parameters is
// wrong, which is said elsewhere: the arguments behind a missing one would all be at fault.
template <class Kernel>
struct Pointees {  // of a kernel that the compiler has refused: nothing is said of it twice
  static constexpr Kind at(int) { return UNKNOWN; }
};

template <class... Values>
struct Pointees<void (*)(Values...)> {
  static constexpr Kind at(int place) {
    if (sizeof...(Values) != PROFILER_ARGUMENTS) return UNKNOWN;
    constexpr Kind kinds[] = {pointee_kind<Values>()..., UNKNOWN};
    return kinds[place - 1];
  }
};

// Whether a kernel that takes a pointer to `pointee` would misread `elements`.
constexpr bool misread(Kind taken, Kind pointee, Kind elements) {
  return taken.letter == pointee.letter && taken.bytes == pointee.bytes &&
         !may_point_to(taken, elements);
}

}  // namespace profiler_launcher

// Refusals of a tensor by the type of the kernel's parameter. A message that begins with
// `profiler: ` is shown without the compiler's words around it (profiler/parse/ptxas.py).
#define PROFILER_TENSOR(place, name, dtype, letter, bytes)                                         \
  PROFILER_POINTER(place, "profiler: argument " #place " of the kernel (" #name "): a tensor")     \
  PROFILER_ELEMENTS(profiler_taken_##place, profiler_launcher::kind(#letter, bytes),               \
                    "profiler: argument " #place " of the kernel (" #name "): a tensor of " #dtype \
                    ", but the kernel takes a pointer to ")
// A tensor whose dtype depends on the problem, or that may stand for several types.
#define PROFILER_UNTYPED_TENSOR(place, name) \
  PROFILER_POINTER(place, "profiler: argument " #place " of the kernel (" #name "): a tensor")

// Names are texts by now: the user's file may define a macro of the same name.
#define PROFILER_POINTER(place, tensor)                                                \
  static constexpr profiler_launcher::Kind profiler_taken_##place =                    \
      profiler_launcher::Pointees<std::remove_cv_t<decltype(profiler_function)>>::at(place); \
  static_assert(profiler_taken_##place.letter != profiler_launcher::NO_POINTER.letter, \
                tensor ", but the kernel takes no pointer there");
#define PROFILER_ELEMENTS(taken, elements, text)             \
  PROFILER_MISREAD(taken, "f", 8, elements, text "double")   \
  PROFILER_MISREAD(taken, "f", 4, elements, text "float")    \
  PROFILER_MISREAD(taken, "f", 2, elements, text "half")     \
  PROFILER_MISREAD(taken, "g", 2, elements, text "bfloat16") \
  PROFILER_MISREAD(taken, "i", 8, elements, text "int64")    \
  PROFILER_MISREAD(taken, "i", 4, elements, text "int32")    \
  PROFILER_MISREAD(taken, "i", 2, elements, text "int16")    \
  PROFILER_MISREAD(taken, "i", 1, elements, text "int8")     \
  PROFILER_MISREAD(taken, "u", 8, elements, text "uint64")   \
  PROFILER_MISREAD(taken, "u", 4, elements, text "uint32")   \
  PROFILER_MISREAD(taken, "u", 2, elements, text "uint16")   \
  PROFILER_MISREAD(taken, "u", 1, elements, text "uint8")    \
  PROFILER_MISREAD(taken, "b", 1, elements, text "bool")
#define PROFILER_MISREAD(taken, letter, bytes, elements, text)                                     \
  static_assert(                                                                                   \
      !profiler_launcher::misread(taken, profiler_launcher::kind(letter, bytes), elements), text);
