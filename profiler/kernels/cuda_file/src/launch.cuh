// What the launcher needs, in front of the user's file: whose macros it would not survive.
//
// The compiler knows the types of the kernel's parameters: addresses are passed as they are and
// numbers converted to what the kernel takes, so that nobody has to describe them a second time.

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <tuple>
#include <type_traits>
#include <utility>

struct __half;
struct __nv_bfloat16;

namespace profiler_launcher {

struct Argument {
  long long whole;  // an address, or a whole number; of a struct the address of its fields' Arguments
  double real;
};

// Which fields of the parameter at a place of a launch are set; PROFILER_STRUCT describes some.
template <int Launch, int Place>
struct Fields {
  static constexpr bool profiler_given = false;
};

template <class Value>
Value value_of(const Argument& argument) {
  if constexpr (std::is_pointer_v<Value>) {
    return reinterpret_cast<Value>(argument.whole);
  } else if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
    return static_cast<Value>(argument.whole);
  } else {
    constexpr bool number = std::is_constructible_v<Value, double>;
    static_assert(number, "profiler: a parameter of the kernel is neither a pointer nor a number: a "
                          "struct is given by its members (struct, docs/cuda-file.md)");
    if constexpr (number) return static_cast<Value>(argument.real);
  }
}

// What a number is: f (floating), g (bfloat16), i (signed), u (unsigned), b (bool), p (an address),
// and its bytes; `?` for anything else, such as a struct or an 8-bit float.
struct Kind {
  char letter;
  int bytes;
};

constexpr Kind kind_named(const char* letter, int bytes) { return {*letter, bytes}; }

template <class Value>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<Value, bool>) return {'b', 1};
  else if constexpr (std::is_same_v<Value, __half>) return {'f', 2};
  else if constexpr (std::is_same_v<Value, __nv_bfloat16>) return {'g', 2};
  else if constexpr (std::is_floating_point_v<Value>) return {'f', sizeof(Value)};
  else if constexpr (std::is_integral_v<Value>)
    return {std::is_signed_v<Value> ? 'i' : 'u', sizeof(Value)};
  else if constexpr (std::is_pointer_v<Value>) return {'p', sizeof(Value)};
  else return {'?', 0};
}

// What describes parameters is written to. <string> would take a quarter of the time of a compilation.
struct Text {
  char letters[1 << 16];  // kernels have at most 32,764 bytes of parameters
  std::size_t length;

  void clear() { letters[length = 0] = 0; }

  Text& operator<<(char letter) {
    if (length + 1 < sizeof(letters)) letters[length++] = letter;
    letters[length] = 0;
    return *this;
  }
};

// f4: float, g2: bfloat16, i8: long long; `?` for what is no number.
template <class Value>
void write_number(Text& text) {
  constexpr Kind kind = kind_of<Value>();
  text << kind.letter;
  if (kind.bytes >= 10) text << static_cast<char>('0' + kind.bytes / 10);
  if (kind.bytes > 0) text << static_cast<char>('0' + kind.bytes % 10);
}

template <class Value>
void write_parameter(Text& text) {
  using Plain = std::remove_cv_t<Value>;
  if constexpr (std::is_pointer_v<Plain>)
    write_number<std::remove_cv_t<std::remove_pointer_t<Plain>>>(text << '*');
  else
    write_number<Plain>(text);
}

// Goes through the fields of a struct: describes them, and sets them where it has their Arguments.
// One type for both, so that the compiler says once what it has against a field.
struct Visitor {
  const Argument* next;
  Text* text;
  bool follows = false;  // whether a field was described before
  template <class Field>
  void operator()(Field& field) {
    if (next) {
      field = value_of<Field>(*next++);
      return;
    }
    if (follows) *text << ',';
    follows = true;
    write_parameter<Field>(*text);
  }
};

template <class Value, class Given>
Value made_of(const Argument& argument) {
  if constexpr (Given::profiler_given) {
    Visitor visitor{reinterpret_cast<const Argument*>(argument.whole), nullptr};
    Value made{};
    Given::profiler_each(made, visitor);
    return made;
  } else {
    return value_of<Value>(argument);
  }
}

// `{*f4,i4}`: the fields of a struct that are set.
template <class Value, class Given>
void write_given(Text& text) {
  if constexpr (Given::profiler_given) {
    text << '{';
    Visitor visitor{nullptr, &text};
    Value made{};
    Given::profiler_each(made, visitor);
    text << '}';
  } else {
    write_parameter<Value>(text);
  }
}

// How many arguments each launch gives its kernel.
constexpr int given[] = {PROFILER_ARGUMENTS};

template <int Launch, class Result, class... Values, std::size_t... Places>
int write_at(Text& text, Result (*)(Values...), std::index_sequence<Places...>) {
  static_assert(sizeof...(Values) == given[Launch],
                "profiler: the kernel has another number of parameters than it is given arguments");
  text.clear();
  ((write_given<std::decay_t<Values>, Fields<Launch, Places + 1>>(text), text << ' '), ...);
  return 0;
}

template <int Launch, class Result, class... Values>
int write_parameters(Text& text, Result (*kernel)(Values...)) {
  return write_at<Launch>(text, kernel, std::index_sequence_for<Values...>());
}

// What is known of the last launch that failed; empty where CUDA's text for the error is all.
static char last_failure[160];

inline void write_limit(const void* kernel, const unsigned* block) {
  last_failure[0] = 0;
  cudaFuncAttributes of{};
  const unsigned long long threads = 1ull * block[0] * block[1] * block[2];
  if (cudaFuncGetAttributes(&of, kernel) == cudaSuccess && threads > 1ull * of.maxThreadsPerBlock)
    std::snprintf(last_failure, sizeof(last_failure),
                  "a block of %llu threads, where the kernel can have at most %d, by its registers or its "
                  "__launch_bounds__", threads, of.maxThreadsPerBlock);
}

// A value for a host function: a stream is the one that kernels are launched on.
template <class Value, class Given>
Value host_value_of(const Argument& argument, cudaStream_t queue) {
  if constexpr (std::is_same_v<Value, cudaStream_t>) return queue;
  else return made_of<Value, Given>(argument);
}

// Calls a host function. It may return a status (an enum, 0 for success: cudaError_t, cublasStatus_t,
// cutlass::Status), and its launches may leave an error.
template <int Launch, class Result, class... Values, std::size_t... Places>
int call_with(Result (*function)(Values...), void* stream, const Argument* arguments,
              std::index_sequence<Places...>) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const auto call = [&] {
    return function(host_value_of<std::decay_t<Values>, Fields<Launch, Places + 1>>(
        arguments[Places], queue)...);
  };
  cudaGetLastError();
  int status = 0;
  if constexpr (std::is_enum_v<Result>) status = static_cast<int>(call());
  else call();
  const cudaError_t left = cudaGetLastError();
  if (status != 0 && !std::is_same_v<Result, cudaError_t>)
    std::snprintf(last_failure, sizeof(last_failure), "the host function returned the status %d", status);
  else if (status != 0 || left != cudaSuccess)
    std::snprintf(last_failure, sizeof(last_failure), "the host function %s: %s",
                  status != 0 ? "returned an error" : "left an error of a call behind",
                  cudaGetErrorString(status != 0 ? static_cast<cudaError_t>(status) : left));
  return status != 0 ? status : left;
}

template <int Launch, class... Values, std::size_t... Places>
int launch_with(void (*kernel)(Values...), const unsigned* grid, const unsigned* block,
                std::size_t shared, bool cooperative, void* stream, const Argument* arguments,
                std::index_sequence<Places...>) {
  std::tuple<std::decay_t<Values>...> values{
      made_of<std::decay_t<Values>, Fields<Launch, Places + 1>>(arguments[Places])...};
  void* addresses[] = {static_cast<void*>(&std::get<Places>(values))..., nullptr};
  const dim3 blocks(grid[0], grid[1], grid[2]), threads(block[0], block[1], block[2]);
  const auto queue = static_cast<cudaStream_t>(stream);
  const auto start = [&] {
    return cooperative
               ? cudaLaunchCooperativeKernel(kernel, blocks, threads, addresses, shared, queue)
               : cudaLaunchKernel(kernel, blocks, threads, addresses, shared, queue);
  };
  const cudaError_t error = start();
  if (error == cudaSuccess) return error;
  write_limit(reinterpret_cast<const void*>(kernel), block);
  // Clusters of more than 8 blocks are for GPUs that take them, and are asked for by an attribute.
  const auto large_clusters = cudaFuncAttributeNonPortableClusterSizeAllowed;
  if (error != cudaErrorInvalidClusterSize ||
      cudaFuncSetAttribute(kernel, large_clusters, 1) != cudaSuccess)
    return error;
  cudaGetLastError();
  return start();
}

// Without a grid, what is named is a host function.
template <int Launch, class Result, class... Values>
int launch_kernel(Result (*kernel)(Values...), const unsigned* grid, const unsigned* block,
           std::size_t shared, bool cooperative, void* stream, const Argument* arguments) {
  constexpr auto places = std::index_sequence_for<Values...>();
  if (!grid) return call_with<Launch>(kernel, stream, arguments, places);
  if constexpr (std::is_void_v<Result>)
    return launch_with<Launch>(kernel, grid, block, shared, cooperative, stream, arguments, places);
  return cudaErrorInvalidDeviceFunction;
}

// What `use` gives for the kernel of a launch, whose number it gets as a type.
template <class Result, class Kernels, class Use, std::size_t... Launches>
Result at_launch(const Kernels& kernels, int launch, Use use, std::index_sequence<Launches...>) {
  Result result{};
  ((launch == Launches
        ? static_cast<void>(result = use(std::integral_constant<int, Launches>(),
                                         std::get<Launches>(kernels)))
        : void()),
   ...);
  return result;
}

template <class Result, class... Kernels, class Use>
Result at_launch(const std::tuple<Kernels...>& kernels, int launch, Use use) {
  return at_launch<Result>(kernels, launch, use, std::index_sequence_for<Kernels...>());
}

// Whether a kernel may read elements of a kind by a pointer to another.
//
// Unsigned numbers often stand for bits of whatever they are, of several elements too.
constexpr bool may_point_to(Kind pointee, Kind elements) {
  if (pointee.letter == '?') return true;
  if (pointee.letter == 'u' && pointee.bytes > elements.bytes) return true;
  if (pointee.bytes != elements.bytes) return false;
  return pointee.letter == elements.letter || pointee.letter == 'u' ||
         (pointee.letter == 'i' && elements.letter == 'u') ||
         (pointee.letter == 'p' && elements.letter == 'i');
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
template <int Launch, class Kernel>
struct Pointees {  // of a kernel that the compiler has refused: nothing is said of it twice
  static constexpr Kind kind_at(int) { return UNKNOWN; }
};

template <int Launch, class Result, class... Values>
struct Pointees<Launch, Result (*)(Values...)> {
  static constexpr Kind kind_at(int place) {
    if (sizeof...(Values) != given[Launch]) return UNKNOWN;
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
#define PROFILER_TENSOR(launch, place, name, dtype, letter, bytes)                                    \
  PROFILER_POINTER(launch, place, PROFILER_WHICH(place, #name))                                       \
  PROFILER_ELEMENTS(profiler_taken_##launch##_##place, profiler_launcher::kind_named(#letter, bytes), \
                    PROFILER_WHICH(place, #name) " of " #dtype                                        \
                    ", but the kernel takes a pointer to ")
// A tensor whose dtype depends on the problem, or that may stand for several types.
#define PROFILER_UNTYPED_TENSOR(launch, place, name) \
  PROFILER_POINTER(launch, place, PROFILER_WHICH(place, #name))

// Names are texts by now: the user's file may define a macro of the same name.
#define PROFILER_WHICH(place, name) "profiler: argument " #place " of the kernel (" name "): a tensor"
#define PROFILER_POINTER(launch, place, tensor)                                                 \
  static constexpr profiler_launcher::Kind profiler_taken_##launch##_##place =                  \
      profiler_launcher::Pointees<                                                              \
          launch, std::tuple_element_t<launch, std::remove_cv_t<decltype(profiler_kernels)>>>:: \
          kind_at(place);                                                                       \
  static_assert(                                                                                \
      profiler_taken_##launch##_##place.letter != profiler_launcher::NO_POINTER.letter,         \
      tensor ", but the kernel takes no pointer there");

// A struct by value: which of its fields are set, in the order of their Arguments. The compiler says
// where there is no such field.
#define PROFILER_STRUCT(launch, place, name, profiler_fields)                                 \
  template <>                                                                                 \
  struct profiler_launcher::Fields<launch, place> {                                           \
    static constexpr bool profiler_given = true;                                              \
    template <class ProfilerStruct>                                                           \
    static void profiler_each(ProfilerStruct& profiler_made,                                  \
                              profiler_launcher::Visitor& profiler_visit) {                   \
      static_assert(std::is_class_v<ProfilerStruct>, "profiler: argument " #place             \
                    " of the kernel (" #name "): a struct, but the kernel takes none there"); \
      profiler_fields                                                                         \
    }                                                                                         \
  };
#define PROFILER_FIELD(launch, place, name, field) profiler_visit(profiler_made.field);
#define PROFILER_UNTYPED_FIELD_TENSOR(launch, place, name, field)                            \
  static_assert(std::is_pointer_v<std::remove_reference_t<decltype((profiler_made.field))>>, \
                PROFILER_WHICH(place, #name) ", but the struct has no pointer there");       \
  profiler_visit(profiler_made.field);
#define PROFILER_FIELD_TENSOR(launch, place, name, field, dtype, letter, bytes)        \
  PROFILER_ELEMENTS(                                                                   \
      (profiler_launcher::pointee_kind<                                                \
          std::remove_reference_t<decltype((profiler_made.field))>>()),                \
      profiler_launcher::kind_named(#letter, bytes),                                   \
      PROFILER_WHICH(place, #name) " of " #dtype ", but the struct has a pointer to ") \
  PROFILER_UNTYPED_FIELD_TENSOR(launch, place, name, field)

#define PROFILER_ELEMENTS(taken, elements, text)                              \
  PROFILER_MISREAD(taken, "f", 8, elements, text "double")                    \
  PROFILER_MISREAD(taken, "f", 4, elements, text "float")                     \
  PROFILER_MISREAD(taken, "f", 2, elements, text "half")                      \
  PROFILER_MISREAD(taken, "g", 2, elements, text "bfloat16")                  \
  PROFILER_MISREAD(taken, "i", 8, elements, text "int64")                     \
  PROFILER_MISREAD(taken, "i", 4, elements, text "int32")                     \
  PROFILER_MISREAD(taken, "i", 2, elements, text "int16")                     \
  PROFILER_MISREAD(taken, "i", 1, elements, text "int8")                      \
  PROFILER_MISREAD(taken, "u", 8, elements, text "uint64")                    \
  PROFILER_MISREAD(taken, "u", 4, elements, text "uint32")                    \
  PROFILER_MISREAD(taken, "u", 2, elements, text "uint16")                    \
  PROFILER_MISREAD(taken, "u", 1, elements, text "uint8")                     \
  PROFILER_MISREAD(taken, "p", 8, elements, text "pointers (pointers: true)") \
  PROFILER_MISREAD(taken, "b", 1, elements, text "bool")
#define PROFILER_MISREAD(taken, letter, bytes, elements, text) \
  static_assert(                                               \
      !profiler_launcher::misread(taken, profiler_launcher::kind_named(letter, bytes), elements), text);
