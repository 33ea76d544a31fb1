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
// The profiler's builds find this file, and define PROFILER_TIMELINE in a build of their own for the
// collector. Without that definition all of it is nothing: the machine code is that of the kernel
// without it. docs/timelines.md
#pragma once

#ifdef PROFILER_TIMELINE

namespace profiler {

constexpr unsigned kTimelineBlocks = 4;   // the first of the grid are recorded
constexpr unsigned kTimelineGroups = 8;   // of a block
constexpr unsigned kTimelineWords = 1024;  // of a group: a power of two
constexpr unsigned kTimelineHead = 8;     // words before the stamps, see `Timeline`
constexpr unsigned kTimelineCodes = 31;   // activities
constexpr unsigned kTimelineClockBits = 27;  // of a stamp; the code is above them

// One source of a library may include this header: its functions and buffer are those of one kernel.
__device__ unsigned timeline_words[kTimelineBlocks * kTimelineGroups * kTimelineWords];

constexpr unsigned names_in(const char* text) {
  unsigned names = 1;
  for (; *text != '\0'; ++text) names += *text == ',';
  return names;
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
// Words of a group: 1, the multiprocessor, globaltimer and clock at the beginning (two words and
// one), the same at the end; then the stamps, the oldest first. 0: not written.
class Timeline {
 public:
  __device__ __forceinline__ explicit Timeline(int group)
      : Timeline(group, (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
                            128 == 0) {}

  // `writes`: true in one thread of the group, for groups that are no warpgroups.
  __device__ __forceinline__ Timeline(int group, bool writes) {
    const unsigned long long block =
        blockIdx.x + static_cast<unsigned long long>(gridDim.x) *
                         (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
    if (!writes || block >= kTimelineBlocks || static_cast<unsigned>(group) >= kTimelineGroups) {
      return;
    }
    const unsigned first =
        (static_cast<unsigned>(block) * kTimelineGroups + group) * kTimelineWords;
    unsigned multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    timeline_words[first] = 1;
    timeline_words[first + 1] = multiprocessor;
    note_time(first + 2);
    next_ = first + kTimelineHead;
  }

  __device__ __forceinline__ ~Timeline() {
    if (next_ != 0) note_time(((next_ - 1) & ~(kTimelineWords - 1)) + 5);
  }

  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  template <class Activity>
  __device__ __forceinline__ void enter(Activity activity) {
    if (next_ % kTimelineWords == 0) return;
    const unsigned code = static_cast<unsigned>(activity) + 1;
    constexpr unsigned kClock = (1u << kTimelineClockBits) - 1;
    timeline_words[next_] = (timeline_clock() & kClock) | code << kTimelineClockBits;
    ++next_;
  }

 private:
  // Where the next stamp goes. A multiple of kTimelineWords: nowhere, this thread does not write or
  // its place is full.
  unsigned next_ = 0;

  static __device__ __forceinline__ void note_time(unsigned place) {
    const unsigned long long time = timeline_nanoseconds();
    timeline_words[place] = static_cast<unsigned>(time);
    timeline_words[place + 1] = static_cast<unsigned>(time >> 32);
    timeline_words[place + 2] = timeline_clock();
  }
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
  sizes[4] = profiler::kTimelineClockBits;
}

extern "C" int profiler_timeline_clear() {
  void* words = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&words, profiler::timeline_words);
  return error != cudaSuccess ? error : cudaMemset(words, 0, sizeof profiler::timeline_words);
}

extern "C" int profiler_timeline_read(void* words) {
  return cudaMemcpyFromSymbol(words, profiler::timeline_words, sizeof profiler::timeline_words);
}

#else

namespace profiler {

class Timeline {
 public:
  __device__ __forceinline__ explicit Timeline(int) {}
  __device__ __forceinline__ Timeline(int, bool) {}

  template <class Activity>
  __device__ __forceinline__ void enter(Activity) {}
};

}  // namespace profiler

#define PROFILER_ACTIVITIES(type, ...) enum class type : unsigned { __VA_ARGS__ };
#define PROFILER_GROUPS(names)
#define PROFILER_OPERATIONS(operations)

#endif
