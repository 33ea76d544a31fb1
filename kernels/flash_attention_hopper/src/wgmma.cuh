// wgmma: one warpgroup multiplies 64 rows with N columns over a depth of 16, asynchronously.
//
// The sums of a lane: sums[4 * i + j] is column 8 * i + lane % 4 * 2 + j % 2 of row lane / 4, from
// j = 2 on of the row 8 below it; a warp has 16 of the 64 rows. Two neighbouring i of the same lane
// are, packed, just what A in registers must be.
#pragma once

#include "config.cuh"

namespace flash_attention_hopper {

// From here on wgmma may read registers that were written before.
__device__ __forceinline__ void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most PENDING of the newest groups of products are under way.
template <int PENDING>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The compiler does not know that wgmma writes its sums later: without this it may move their
// readers before the wait.
template <int COUNT>
__device__ __forceinline__ void pin(float (&values)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// Descriptor of an operand in shared memory with the 128-byte swizzle. `panel_stride` is what lies
// between two panels where columns are contiguous (V); it is not used where depth is (Q, K).
__device__ __forceinline__ uint64_t describe(uint32_t address, int panel_stride) {
  constexpr uint64_t kSwizzle128 = 1ull << 62;
  constexpr uint64_t kStride = static_cast<uint64_t>(kSwizzleBytes >> 4) << 32;
  return kSwizzle128 | kStride | static_cast<uint64_t>(panel_stride >> 4) << 16 |
         static_cast<uint64_t>(address >> 4);
}

// The same operand, this many bytes further.
__device__ __forceinline__ uint64_t advance(uint64_t descriptor, int bytes) {
  return descriptor + static_cast<uint64_t>(bytes >> 4);
}

template <int COLS>
struct Wgmma;

#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_24 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NAMES_32 NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_48 NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_64 NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_72 NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define NAMES_80 NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define NAMES_88 NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define NAMES_96 NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_104 NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define NAMES_112 NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define NAMES_120 NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define NAMES_128 NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define SUMS_AT(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_8 SUMS_AT(0)
#define SUMS_16 SUMS_8, SUMS_AT(8)
#define SUMS_24 SUMS_16, SUMS_AT(16)
#define SUMS_32 SUMS_24, SUMS_AT(24)
#define SUMS_40 SUMS_32, SUMS_AT(32)
#define SUMS_48 SUMS_40, SUMS_AT(40)
#define SUMS_56 SUMS_48, SUMS_AT(48)
#define SUMS_64 SUMS_56, SUMS_AT(56)
#define SUMS_72 SUMS_64, SUMS_AT(64)
#define SUMS_80 SUMS_72, SUMS_AT(72)
#define SUMS_88 SUMS_80, SUMS_AT(80)
#define SUMS_96 SUMS_88, SUMS_AT(88)
#define SUMS_104 SUMS_96, SUMS_AT(96)
#define SUMS_112 SUMS_104, SUMS_AT(104)
#define SUMS_120 SUMS_112, SUMS_AT(112)
#define SUMS_128 SUMS_120, SUMS_AT(120)

#if DTYPE == 15
#define OPERAND_TYPES "bf16.bf16"
#else
#define OPERAND_TYPES "f16.f16"
#endif

// n0 to n5 are the six numbers after those of the sums: asm has no arithmetic. A from shared memory
// comes with B whose depth is contiguous (Q K^T), A from registers with B whose columns are (P V).
#define WGMMA(cols, count, n0, n1, n2, n3, n4, n5)                                               \
  template <>                                                                                    \
  struct Wgmma<cols> {                                                                           \
    static __device__ __forceinline__ void from_shared(float (&d)[count], uint64_t a, uint64_t b, \
                                                       bool accumulate) {                        \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\n"                             \
                   "wgmma.mma_async.sync.aligned.m64n" #cols "k16.f32." OPERAND_TYPES            \
                   " {" NAMES_##count "}, %" #n0 ", %" #n1 ", p, 1, 1, 0, 0;\n}\n"               \
                   : SUMS_##count                                                                \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                         \
    }                                                                                            \
    static __device__ __forceinline__ void from_registers(                                       \
        float (&d)[count], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b,       \
        bool accumulate) {                                                                       \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n5 ", 0;\n"                             \
                   "wgmma.mma_async.sync.aligned.m64n" #cols "k16.f32." OPERAND_TYPES            \
                   " {" NAMES_##count "}, {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4       \
                   ", p, 1, 1, 1;\n}\n"                                                          \
                   : SUMS_##count                                                                \
                   : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b),                                 \
                     "r"(static_cast<int>(accumulate)));                                         \
    }                                                                                            \
  };

WGMMA(16, 8, 8, 9, 10, 11, 12, 13)
WGMMA(32, 16, 16, 17, 18, 19, 20, 21)
WGMMA(48, 24, 24, 25, 26, 27, 28, 29)
WGMMA(64, 32, 32, 33, 34, 35, 36, 37)
WGMMA(80, 40, 40, 41, 42, 43, 44, 45)
WGMMA(96, 48, 48, 49, 50, 51, 52, 53)
WGMMA(112, 56, 56, 57, 58, 59, 60, 61)
WGMMA(128, 64, 64, 65, 66, 67, 68, 69)
WGMMA(144, 72, 72, 73, 74, 75, 76, 77)
WGMMA(160, 80, 80, 81, 82, 83, 84, 85)
WGMMA(176, 88, 88, 89, 90, 91, 92, 93)
WGMMA(192, 96, 96, 97, 98, 99, 100, 101)
WGMMA(208, 104, 104, 105, 106, 107, 108, 109)
WGMMA(224, 112, 112, 113, 114, 115, 116, 117)
WGMMA(240, 120, 120, 121, 122, 123, 124, 125)
WGMMA(256, 128, 128, 129, 130, 131, 132, 133)

}  // namespace flash_attention_hopper
