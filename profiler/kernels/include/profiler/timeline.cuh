// When each warpgroup of a kernel did what: stamps of the clock, for the collector `in_kernel`.
//
// In the file of the kernel, at namespace scope, once:
//     PROFILER_ACTIVITIES(Activity, wait_for_tile, products, softmax)
// In the kernel, in every thread, with a number for each warpgroup (or warp):
//     profiler::Timeline timeline(group);
//     timeline.enter(Activity::softmax);   // from here on; until the next of these, or its end
// Optional, beside the activities: names of the warpgroups, in the order of their numbers, and what
// is under way from the beginning of one activity to the end of the next other one.
//     PROFILER_GROUPS("producer, consumer")
//     PROFILER_OPERATIONS("Q K^T: products to wait_for_products")
//
// Of the first four blocks of the grid stamps are written; in all others, an `enter` takes five instructions.
// Where that is too much, a kernel has two copies of its code, and the others take the one without:
//     if (profiler::records_block()) { profiler::Timeline timeline(group); work(timeline); }
//     else { profiler::NoTimeline timeline; work(timeline); }
//
// The profiler's builds find this file, and define PROFILER_TIMELINE in a build of their own for the
// collector. Without that definition all of it is nothing: the machine code is that of the kernel
// without it. docs/timelines.md
#pragma once

#ifdef PROFILER_TIMELINE

namespace profiler {

constexpr unsigned kTimelineBlocks = 4;    // of the grid are recorded
constexpr unsigned kTimelineGroups = 8;    // of a block
constexpr unsigned kTimelineWords = 1024;  // of a group: a power of two
constexpr unsigned kTimelineHead = 8;      // words before the stamps, see `Timeline`
constexpr unsigned kTimelineCodeBits = 5;  // of a stamp; the clock is above them
constexpr unsigned kTimelineCodes = (1u << kTimelineCodeBits) - 1;  // activities
constexpr unsigned kTimelineBytes = kTimelineWords * sizeof(unsigned);

constexpr unsigned kTimelinePlaces = kTimelineBlocks * kTimelineGroups;

// One source of a library may include this header: its functions and buffer are those of one kernel.
// A place more than is used: the driver aligns variables to less than the bytes of a place, whatever
// they ask for, so what is used begins at the first multiple of them.
__device__ unsigned timeline_words[(kTimelinePlaces + 1) * kTimelineWords];

// Where the first place begins: no carry leaves the lower half of an address within a place.
__host__ __device__ __forceinline__ unsigned* first_place(unsigned* words) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(words);
  return reinterpret_cast<unsigned*>((address + kTimelineBytes - 1) &
                                     ~static_cast<unsigned long long>(kTimelineBytes - 1));
}

constexpr unsigned names_in(const char* text) {
  unsigned names = 1;
  for (; *text != '\0'; ++text) names += *text == ',';
  return names;
}

__device__ __forceinline__ unsigned long long number_of_block() {
  return blockIdx.x + static_cast<unsigned long long>(gridDim.x) *
                          (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
}

// Whether this block is recorded; the same in all of its threads.
__device__ __forceinline__ bool records_block() {
  return number_of_block() < kTimelineBlocks;
}

__device__ __forceinline__ unsigned timeline_clock() {
  unsigned clock;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
  return clock;
}

__device__ __forceinline__ unsigned long long timeline_nanoseconds() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

// The stamps of a warpgroup: one of its threads writes them, to a place that nobody else writes.
//
// Words of a group: the number of the block plus 1, the multiprocessor, globaltimer and clock at the
// beginning (two words and one), the same at the end; then the stamps, the oldest first. 0: not
// written.
class Timeline {
 public:
  __device__ __forceinline__ explicit Timeline(int group)
      : Timeline(group, (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
                            128 == 0) {}

  // `writes`: true in one thread of the group, for groups that are no warpgroups.
  __device__ __forceinline__ Timeline(int group, bool writes) {
    if (!writes || !records_block() || static_cast<unsigned>(group) >= kTimelineGroups) return;
    const unsigned place = static_cast<unsigned>(number_of_block());
    unsigned* words = first_place(timeline_words);
    words += (place * kTimelineGroups + group) * kTimelineWords;
    unsigned multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    words[0] = place + 1;
    words[1] = multiprocessor;
    note_time(words + 2);
    const unsigned long long address = __cvta_generic_to_global(words + kTimelineHead);
    low_ = static_cast<unsigned>(address);
    high_ = static_cast<unsigned>(address >> 32);
  }

  __device__ __forceinline__ ~Timeline() {
    if ((low_ | high_) == 0) return;
    const unsigned first = (low_ - 1) & ~(kTimelineBytes - 1);
    const unsigned long long address = static_cast<unsigned long long>(high_) << 32 | first;
    note_time(static_cast<unsigned*>(__cvta_global_to_generic(address)) + 5);
  }

  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  template <class Activity>
  __device__ __forceinline__ void enter(Activity activity) {
    // Five instructions, and no branch after which a warp's threads have to meet again. The address
    // moves on before the store: what writes its register waits until a store has read it.
    asm volatile(
        "{\n"
        ".reg .pred writes;\n"
        ".reg .b32 stamp;\n"
        ".reg .b64 address;\n"
        "and.b32 stamp, %0, %2;\n"
        "setp.ne.u32 writes, stamp, 0;\n"
        "@writes add.u32 %0, %0, 4;\n"
        "mov.b64 address, {%0, %1};\n"
        "@writes mov.u32 stamp, %%clock;\n"
        "shl.b32 stamp, stamp, %3;\n"
        "add.u32 stamp, stamp, %4;\n"
        "@writes st.global.u32 [address+-4], stamp;\n"
        "}"
        : "+r"(low_)
        : "r"(high_), "n"(kTimelineBytes - 1), "n"(kTimelineCodeBits),
          "r"(static_cast<unsigned>(activity) + 1)
        : "memory");
  }

 private:
  // Halves of the address of the next stamp. A multiple of kTimelineBytes: nowhere, this thread does
  // not write or its place is full.
  unsigned low_ = 0;
  unsigned high_ = 0;

  static __device__ __forceinline__ void note_time(unsigned* words) {
    const unsigned long long time = timeline_nanoseconds();
    words[0] = static_cast<unsigned>(time);
    words[1] = static_cast<unsigned>(time >> 32);
    words[2] = timeline_clock();
  }
};

// In the place of a timeline: nothing is written.
class NoTimeline {
 public:
  template <class Activity>
  __device__ __forceinline__ void enter(Activity) {}
};

}  // namespace profiler

#define PROFILER_ACTIVITIES(type, ...)                                           \
  enum class type : unsigned { __VA_ARGS__ };                                    \
  static_assert(profiler::names_in(#__VA_ARGS__) <= profiler::kTimelineCodes,    \
                "a timeline has at most 31 activities");                         \
  extern "C" const char* profiler_timeline_activities() { return #__VA_ARGS__; }
#define PROFILER_GROUPS(names) \
  extern "C" const char* profiler_timeline_groups() { return names; }
#define PROFILER_OPERATIONS(operations) \
  extern "C" const char* profiler_timeline_operations() { return operations; }

extern "C" const char* profiler_timeline_error_string(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

extern "C" void profiler_timeline_sizes(unsigned* sizes) {
  sizes[0] = profiler::kTimelineBlocks;
  sizes[1] = profiler::kTimelineGroups;
  sizes[2] = profiler::kTimelineWords;
  sizes[3] = profiler::kTimelineHead;
  sizes[4] = profiler::kTimelineCodeBits;
}

extern "C" int profiler_timeline_clear() {
  void* words = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&words, profiler::timeline_words);
  return error != cudaSuccess ? error : cudaMemset(words, 0, sizeof profiler::timeline_words);
}

extern "C" int profiler_timeline_read(void* words) {
  void* all = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&all, profiler::timeline_words);
  if (error != cudaSuccess) return error;
  const unsigned* used = profiler::first_place(static_cast<unsigned*>(all));
  return cudaMemcpy(words, used, profiler::kTimelinePlaces * profiler::kTimelineBytes,
                    cudaMemcpyDeviceToHost);
}

#else

namespace profiler {

constexpr __device__ bool records_block() { return false; }

class NoTimeline {
 public:
  template <class Activity>
  __device__ __forceinline__ void enter(Activity) {}
};

class Timeline : public NoTimeline {
 public:
  __device__ __forceinline__ explicit Timeline(int) {}
  __device__ __forceinline__ Timeline(int, bool) {}
};

}  // namespace profiler

#define PROFILER_ACTIVITIES(type, ...) enum class type : unsigned { __VA_ARGS__ };
#define PROFILER_GROUPS(names)
#define PROFILER_OPERATIONS(operations)

#endif
