// Counters of single kernel launches, by CUPTI's range profiler in the process that launches.
//
// One set of metrics in a process (`cupti_configure`); then, for each visit, `cupti_begin` and `cupti_end` around
// its launches, `cupti_decode`, and the values of each kernel. CUPTI makes a range of each kernel
// itself, and times it as ncu does: ranges that are pushed and popped around a launch last some
// microseconds longer than it and count L2 traffic of their own.
// Every function that returns an int gives a negative number on failure, and `cupti_error` says why.
#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_target.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

// Parameters of launches as CUPTI hands them over, down to what is read here (its own header of them
// needs types of the driver that cuda.h no longer has).
struct LaunchParameters {
  CUfunction f;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
};

struct LaunchExParameters {
  const CUlaunchConfig* config;
  CUfunction f;
};

struct Launch {
  std::string kernel;
  unsigned grid[3];
  unsigned block[3];
  unsigned dynamic_shared_bytes;
  int registers;
  int static_shared_bytes;
  int blocks_per_multiprocessor;
};

std::string message;
CUpti_SubscriberHandle subscriber = nullptr;
CUpti_Profiler_Host_Object* host = nullptr;
CUpti_RangeProfiler_Object* profiler = nullptr;
std::vector<std::string> metric_names;
std::vector<const char*> metric_pointers;
std::vector<uint8_t> availability, config_image, counter_data;
size_t max_ranges = 0;
size_t passes = 0;
bool listening = false;
bool launches_graph = false;
std::vector<Launch> launches;

int failed(const char* what, CUptiResult result) {
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  message = std::string(what) + ": " + (text ? text : "unknown error");
  return -1;
}

int failed(const char* what, CUresult result) {
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  message = std::string(what) + ": " + (text ? text : "unknown error");
  return -1;
}

// CUPTI and the driver check the size that each structure of parameters says it has.
#define PARAMETERS(type, name) \
  type name;                   \
  std::memset(&name, 0, sizeof name); \
  name.structSize = type##_STRUCT_SIZE

#define REQUIRE(call)                                       \
  do {                                                      \
    const auto result_ = (call);                            \
    if (static_cast<int>(result_) != 0) return failed(#call, result_); \
  } while (0)

int attribute(CUfunction function, CUfunction_attribute which) {
  int value = -1;
  return cuFuncGetAttribute(&value, which, function) == CUDA_SUCCESS ? value : -1;
}

// A launch names a kernel of a library, which belongs to no context, or the function of a context.
CUfunction function_of(CUfunction launched) {
  CUfunction function = nullptr;
  const auto kernel = reinterpret_cast<CUkernel>(launched);
  return cuKernelGetFunction(&function, kernel) == CUDA_SUCCESS ? function : launched;
}

std::string demangled(const char* symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : symbol;
  std::free(text);
  return name;
}

void take_down(const char* name, CUfunction launched, const unsigned* sizes, unsigned shared) {
  Launch launch;
  const CUfunction function = function_of(launched);
  launch.kernel = demangled(name ? name : "");
  std::memcpy(launch.grid, sizes, sizeof launch.grid);
  std::memcpy(launch.block, sizes + 3, sizeof launch.block);
  launch.dynamic_shared_bytes = shared;
  launch.registers = attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
  launch.static_shared_bytes = attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  launch.blocks_per_multiprocessor = -1;
  const int threads = sizes[3] * sizes[4] * sizes[5];
  cuOccupancyMaxActiveBlocksPerMultiprocessor(&launch.blocks_per_multiprocessor, function, threads, shared);
  launches.push_back(launch);
}

// Sizes of the grid and of the block, one after the other, of either form of a launch.
template <typename Parameters>
void take_down_sizes(const char* name, CUfunction function, const Parameters& of) {
  const unsigned sizes[] = {of.gridDimX, of.gridDimY, of.gridDimZ, of.blockDimX, of.blockDimY, of.blockDimZ};
  take_down(name, function, sizes, of.sharedMemBytes);
}

bool is_graph(CUpti_CallbackId id) {
  return id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch || id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz;
}

const CUpti_CallbackId kLaunches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};

void note_launch(const CUpti_CallbackData& call, CUpti_CallbackId id) {
  if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx || id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
    const auto* of = static_cast<const LaunchExParameters*>(call.functionParams);
    take_down_sizes(call.symbolName, of->f, *of->config);
  } else {
    // Cooperative launches begin with the same parameters.
    const auto* of = static_cast<const LaunchParameters*>(call.functionParams);
    take_down_sizes(call.symbolName, of->f, *of);
  }
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (!listening || call.callbackSite != CUPTI_API_ENTER) return;
  if (is_graph(id)) {
    launches_graph = true;
  } else {
    note_launch(call, id);
  }
}

int subscribe() {
  if (subscriber) return 0;
  REQUIRE(cuptiSubscribe(&subscriber, on_call, nullptr));
  for (const CUpti_CallbackId id : kLaunches) {
    REQUIRE(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id));
  }
  return 0;
}

int open_host(CUcontext context) {
  CUdevice device = 0;
  REQUIRE(cuCtxGetDevice(&device));
  PARAMETERS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = device;
  REQUIRE(cuptiDeviceGetChipName(&chip));
  PARAMETERS(CUpti_Profiler_GetCounterAvailability_Params, available);
  available.ctx = context;
  REQUIRE(cuptiProfilerGetCounterAvailability(&available));
  availability.resize(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = availability.data();
  REQUIRE(cuptiProfilerGetCounterAvailability(&available));
  PARAMETERS(CUpti_Profiler_Host_Initialize_Params, opening);
  opening.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  opening.pChipName = chip.pChipName;
  opening.pCounterAvailabilityImage = availability.data();
  REQUIRE(cuptiProfilerHostInitialize(&opening));
  host = opening.pHostObject;
  return 0;
}

int make_config() {
  PARAMETERS(CUpti_Profiler_Host_ConfigAddMetrics_Params, adding);
  adding.pHostObject = host;
  adding.ppMetricNames = metric_pointers.data();
  adding.numMetrics = metric_pointers.size();
  REQUIRE(cuptiProfilerHostConfigAddMetrics(&adding));
  PARAMETERS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = host;
  REQUIRE(cuptiProfilerHostGetConfigImageSize(&size));
  config_image.resize(size.configImageSize);
  PARAMETERS(CUpti_Profiler_Host_GetConfigImage_Params, image);
  image.pHostObject = host;
  image.configImageSize = config_image.size();
  image.pConfigImage = config_image.data();
  REQUIRE(cuptiProfilerHostGetConfigImage(&image));
  PARAMETERS(CUpti_Profiler_Host_GetNumOfPasses_Params, count);
  count.configImageSize = config_image.size();
  count.pConfigImage = config_image.data();
  REQUIRE(cuptiProfilerHostGetNumOfPasses(&count));
  passes = count.numOfPasses;
  return 0;
}

int empty_counter_data() {
  PARAMETERS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, empty);
  empty.pRangeProfilerObject = profiler;
  empty.counterDataSize = counter_data.size();
  empty.pCounterData = counter_data.data();
  REQUIRE(cuptiRangeProfilerCounterDataImageInitialize(&empty));
  return 0;
}

int set_config() {
  PARAMETERS(CUpti_RangeProfiler_SetConfig_Params, set);
  set.pRangeProfilerObject = profiler;
  set.configSize = config_image.size();
  set.pConfig = config_image.data();
  set.counterDataImageSize = counter_data.size();
  set.pCounterDataImage = counter_data.data();
  set.range = CUPTI_AutoRange;
  set.replayMode = CUPTI_KernelReplay;
  set.maxRangesPerPass = max_ranges;
  set.numNestingLevels = 1;
  set.minNestingLevel = 1;
  set.targetNestingLevel = 1;
  REQUIRE(cuptiRangeProfilerSetConfig(&set));
  return 0;
}

int enable(CUcontext context) {
  PARAMETERS(CUpti_RangeProfiler_Enable_Params, enabling);
  enabling.ctx = context;
  REQUIRE(cuptiRangeProfilerEnable(&enabling));
  profiler = enabling.pRangeProfilerObject;
  PARAMETERS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
  size.pRangeProfilerObject = profiler;
  size.pMetricNames = metric_pointers.data();
  size.numMetrics = metric_pointers.size();
  size.maxNumOfRanges = max_ranges;
  size.maxNumRangeTreeNodes = max_ranges;
  REQUIRE(cuptiRangeProfilerGetCounterDataSize(&size));
  counter_data.assign(size.counterDataSize, 0);
  return 0;
}

}  // namespace

extern "C" {

const char* cupti_error() { return message.c_str(); }

// Passes that these metrics (names as ncu has them, separated by commas) take, for at most so many
// kernels between a begin and an end.
int cupti_configure(const char* metrics, int ranges) {
  metric_names.clear();
  metric_pointers.clear();
  max_ranges = ranges;
  const std::string list(metrics);
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    metric_names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& name : metric_names) metric_pointers.push_back(name.c_str());
  CUcontext context = nullptr;
  REQUIRE(cuCtxGetCurrent(&context));
  PARAMETERS(CUpti_Profiler_Initialize_Params, initializing);
  REQUIRE(cuptiProfilerInitialize(&initializing));
  if (subscribe() < 0 || open_host(context) < 0 || make_config() < 0) return -1;
  if (enable(context) < 0 || empty_counter_data() < 0 || set_config() < 0) return -1;
  return static_cast<int>(passes);
}

// From here on what is launched is counted.
int cupti_begin() {
  PARAMETERS(CUpti_RangeProfiler_Start_Params, starting);
  starting.pRangeProfilerObject = profiler;
  REQUIRE(cuptiRangeProfilerStart(&starting));
  launches.clear();
  launches_graph = false;
  listening = true;
  return 0;
}

// End of what is counted; all launches are done.
int cupti_end() {
  listening = false;
  PARAMETERS(CUpti_RangeProfiler_Stop_Params, stopping);
  stopping.pRangeProfilerObject = profiler;
  REQUIRE(cuptiRangeProfilerStop(&stopping));
  if (!launches_graph) return 0;
  message = "the launch replays a CUDA graph, whose kernels cannot be told apart";
  return -1;
}

// Number of kernels that were counted; negative on failure.
int cupti_decode() {
  PARAMETERS(CUpti_RangeProfiler_DecodeData_Params, decoding);
  decoding.pRangeProfilerObject = profiler;
  REQUIRE(cuptiRangeProfilerDecodeData(&decoding));
  PARAMETERS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = counter_data.data();
  info.counterDataImageSize = counter_data.size();
  REQUIRE(cuptiRangeProfilerGetCounterDataInfo(&info));
  return static_cast<int>(info.numTotalRanges);
}

// Values of the configured metrics of a kernel, in their order.
int cupti_values(int kernel, double* values) {
  PARAMETERS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, evaluating);
  evaluating.pHostObject = host;
  evaluating.pCounterDataImage = counter_data.data();
  evaluating.counterDataImageSize = counter_data.size();
  evaluating.rangeIndex = kernel;
  evaluating.ppMetricNames = metric_pointers.data();
  evaluating.numMetrics = metric_pointers.size();
  evaluating.pMetricValues = values;
  REQUIRE(cuptiProfilerHostEvaluateToGpuValues(&evaluating));
  return 0;
}

// Empty what was decoded, before the next visit.
int cupti_forget() { return empty_counter_data(); }

int cupti_launch_count() { return static_cast<int>(launches.size()); }

const char* cupti_launch_kernel(int number) { return launches[number].kernel.c_str(); }

// Grid, block, dynamic shared bytes, registers, static shared bytes, blocks that fit on an SM.
void cupti_launch_facts(int number, int* facts) {
  const Launch& launch = launches[number];
  const int values[] = {
      static_cast<int>(launch.grid[0]),  static_cast<int>(launch.grid[1]),
      static_cast<int>(launch.grid[2]),  static_cast<int>(launch.block[0]),
      static_cast<int>(launch.block[1]), static_cast<int>(launch.block[2]),
      static_cast<int>(launch.dynamic_shared_bytes),
      launch.registers,
      launch.static_shared_bytes,
      launch.blocks_per_multiprocessor,
  };
  std::memcpy(facts, values, sizeof values);
}

// Give the counters back. No configuration may follow in this process.
int cupti_close() {
  if (profiler) {
    PARAMETERS(CUpti_RangeProfiler_Disable_Params, disabling);
    disabling.pRangeProfilerObject = profiler;
    profiler = nullptr;
    REQUIRE(cuptiRangeProfilerDisable(&disabling));
  }
  if (host) {
    PARAMETERS(CUpti_Profiler_Host_Deinitialize_Params, closing);
    closing.pHostObject = host;
    host = nullptr;
    REQUIRE(cuptiProfilerHostDeinitialize(&closing));
  }
  return 0;
}

}  // extern "C"
