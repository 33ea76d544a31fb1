// Counters of single kernel launches, by CUPTI's range profiler in the process that launches.
//
// `cupti_configure` sets the metrics; `cupti_begin` and `cupti_end` stand around the launches of some visits, once for
// each pass, with the same launches in each; then come `cupti_decode`, the values of each kernel, and `cupti_forget`.
// CUPTI makes a range of each kernel itself, and times it as ncu does: ranges that are pushed and popped around a
// launch last some microseconds longer than it and count L2 traffic of their own. It replays nothing: a kernel that is
// replayed finds warm caches, and the memory that is saved for it takes milliseconds.
// A begin and an end take 7 ms together for two counters and 25 for ten, on an H100, whatever is between them.
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
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace {

// Parameters of launches as CUPTI hands them over, down to what is read here (its own header of them
// needs types of the driver that cuda.h no longer has).
struct LaunchParameters {
  CUfunction f;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
};

struct LaunchExParameters {
  const CUlaunchConfig* config;
  CUfunction f;
};

// What cuMemcpyDtoDAsync, cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyAsync and the synchronous ones begin with.
struct CopyParameters {
  uint64_t destination;
  uint64_t source;
  size_t bytes;
};

// What cuMemsetD8, cuMemsetD16 and cuMemsetD32, asynchronous or not, begin with.
struct FillParameters {
  CUdeviceptr destination;
  unsigned value;
  size_t elements;
};

struct Launch {
  int visit;
  std::string kernel;
  CUstream stream;
  bool begins_early;  // before the kernel before it on its stream has ended (programmatic dependent launch)
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
std::string configured;
size_t max_ranges = 0;
size_t passes = 0;
bool listening = false;
bool launches_graph = false;
bool passes_differ = false;
bool is_first_pass = true;
int current_visit = -1;
std::vector<Launch> launches, launches_of_first_pass;
int copies = 0;
double copied_bytes = 0;

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

// What is launched outside of visits is a range like any other, and of no interest.
void take_down(const char* name, CUfunction launched, const unsigned* sizes, unsigned shared, CUstream stream,
               bool begins_early) {
  Launch launch{};
  launch.visit = current_visit;
  launch.stream = stream;
  launch.begins_early = begins_early;
  launch.kernel = name ? name : "";
  if (current_visit < 0) {
    launches.push_back(launch);
    return;
  }
  const CUfunction function = function_of(launched);
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
void take_down_sizes(const char* name, CUfunction function, const Parameters& of, bool begins_early) {
  const unsigned sizes[] = {of.gridDimX, of.gridDimY, of.gridDimZ, of.blockDimX, of.blockDimY, of.blockDimZ};
  take_down(name, function, sizes, of.sharedMemBytes, of.hStream, begins_early);
}

bool may_begin_early(const CUlaunchConfig& config) {
  return std::any_of(config.attrs, config.attrs + config.numAttrs, [](const CUlaunchAttribute& attribute) {
    return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
           attribute.value.programmaticStreamSerializationAllowed;
  });
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
    CUPTI_DRIVER_TRACE_CBID_cuCtxResetPersistingL2Cache,
};

void note_launch(const CUpti_CallbackData& call, CUpti_CallbackId id) {
  if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx || id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
    const auto* of = static_cast<const LaunchExParameters*>(call.functionParams);
    take_down_sizes(call.symbolName, of->f, *of->config, may_begin_early(*of->config));
  } else {
    // Cooperative launches begin with the same parameters.
    const auto* of = static_cast<const LaunchParameters*>(call.functionParams);
    take_down_sizes(call.symbolName, of->f, *of, false);
  }
}

bool begins_with(const char* text, const char* beginning) {
  return text && std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

bool is_copy_or_fill(const char* function) {
  return begins_with(function, "cuMemcpy") || begins_with(function, "cuMemset");
}

// Bytes of a copy or fill of one dimension; 0 of others.
double bytes_of(const char* function, const void* parameters) {
  const std::string name(function);
  if (begins_with(function, "cuMemset")) {
    const double elements = static_cast<const FillParameters*>(parameters)->elements;
    if (begins_with(function, "cuMemsetD8")) return elements;
    if (begins_with(function, "cuMemsetD16")) return 2 * elements;
    return begins_with(function, "cuMemsetD32") ? 4 * elements : 0;
  }
  for (const char* other : {"2D", "3D", "Batch", "toA", "Ato", "Peer"}) {
    if (name.find(other) != std::string::npos) return 0;
  }
  return static_cast<const CopyParameters*>(parameters)->bytes;
}

bool same_kernels(const std::vector<Launch>& one, const std::vector<Launch>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const Launch& a, const Launch& b) { return a.visit == b.visit && a.kernel == b.kernel; });
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId id, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (!listening || call.callbackSite != CUPTI_API_ENTER) return;
  if (is_graph(id)) {
    launches_graph = true;
  } else if (is_copy_or_fill(call.functionName)) {
    if (current_visit < 0) return;
    copies += 1;
    copied_bytes += bytes_of(call.functionName, call.functionParams);
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuCtxResetPersistingL2Cache) {
    launches.push_back(Launch{-1});  // no kernel, but CUPTI makes a range of it
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
  for (CUpti_CallbackId id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; ++id) {
    const char* name = nullptr;
    cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, id, &name);
    if (!is_copy_or_fill(name)) continue;
    REQUIRE(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id));
  }
  return 0;
}

// Asked once: while counters are enabled CUPTI refuses to say it.
int read_availability(CUcontext context) {
  if (!availability.empty()) return 0;
  PARAMETERS(CUpti_Profiler_GetCounterAvailability_Params, available);
  available.ctx = context;
  REQUIRE(cuptiProfilerGetCounterAvailability(&available));
  availability.resize(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = availability.data();
  REQUIRE(cuptiProfilerGetCounterAvailability(&available));
  return 0;
}

int open_host() {
  CUdevice device = 0;
  REQUIRE(cuCtxGetDevice(&device));
  PARAMETERS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = device;
  REQUIRE(cuptiDeviceGetChipName(&chip));
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
  set.replayMode = CUPTI_UserReplay;
  set.maxRangesPerPass = max_ranges;
  set.numNestingLevels = 1;
  set.minNestingLevel = 1;
  set.targetNestingLevel = 1;
  REQUIRE(cuptiRangeProfilerSetConfig(&set));
  return 0;
}

int enable() {
  PARAMETERS(CUpti_RangeProfiler_Enable_Params, enabling);
  REQUIRE(cuCtxGetCurrent(&enabling.ctx));
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
  return empty_counter_data() < 0 ? -1 : set_config();
}

int disable() {
  if (!profiler) return 0;
  PARAMETERS(CUpti_RangeProfiler_Disable_Params, disabling);
  disabling.pRangeProfilerObject = profiler;
  profiler = nullptr;
  REQUIRE(cuptiRangeProfilerDisable(&disabling));
  return 0;
}

int close_host() {
  if (!host) return 0;
  PARAMETERS(CUpti_Profiler_Host_Deinitialize_Params, closing);
  closing.pHostObject = host;
  host = nullptr;
  REQUIRE(cuptiProfilerHostDeinitialize(&closing));
  return 0;
}

void forget_launches() {
  launches.clear();
  launches_of_first_pass.clear();
  is_first_pass = true;
  passes_differ = launches_graph = false;
}

const char* const kGraph =
    "a launch replays a CUDA graph, whose kernels CUPTI does not tell apart; ncu times and counts them one by one "
    "(leave out --fast), --timer the whole replay";

int wrong(const char* what) {
  message = what;
  return -1;
}

}  // namespace

extern "C" {

const char* cupti_error() { return message.c_str(); }

// Passes that these metrics (names as ncu has them, separated by commas) take, for at most so many kernels between a
// begin and an end. Metrics that were set before are no more. The first begin takes a millisecond for each kernel: where
// the same metrics are set already, and there is room enough, nothing is done. More kernels than there is room for crash
// CUPTI, and so does a graph among some.
int cupti_configure(const char* metrics, int ranges) {
  if (profiler && configured == metrics && max_ranges >= static_cast<size_t>(ranges)) return static_cast<int>(passes);
  configured.clear();
  if (disable() < 0 || close_host() < 0) return -1;
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
  if (subscribe() < 0 || read_availability(context) < 0 || open_host() < 0 || make_config() < 0) return -1;
  forget_launches();
  if (enable() < 0) return -1;
  configured = metrics;
  return static_cast<int>(passes);
}

// From here on launches are noted without being counted, down to `cupti_heard`.
void cupti_listen() {
  launches.clear();
  launches_graph = false;
  copies = 0;
  copied_bytes = 0;
  listening = true;
}

// Number of kernels that were noted; negative where a CUDA graph was launched, whose kernels cannot be told apart.
int cupti_heard() {
  listening = false;
  if (launches_graph) return wrong(kGraph);
  return static_cast<int>(launches.size());
}

// Copies and fills of memory that were noted, which are no kernels; `bytes` of those of one dimension.
int cupti_copies(double* bytes) {
  *bytes = copied_bytes;
  return copies;
}

// Most kernels of the visit that was noted which can run at once: of each stream one, with those in a row after it
// that each may begin before the one before has ended.
int cupti_concurrent_kernels() {
  std::map<CUstream, std::pair<int, int>> rows;  // by stream: the present row, the longest
  for (const Launch& launch : launches) {
    if (launch.visit < 0) continue;
    auto& [row, longest] = rows[launch.stream];
    row = launch.begins_early ? row + 1 : 1;
    longest = std::max(longest, row);
  }
  return std::accumulate(rows.begin(), rows.end(), 0,
                         [](int sum, const auto& of_stream) { return sum + of_stream.second.second; });
}

// From here on kernels are counted, in the next pass.
int cupti_begin() {
  PARAMETERS(CUpti_RangeProfiler_Start_Params, starting);
  starting.pRangeProfilerObject = profiler;
  REQUIRE(cuptiRangeProfilerStart(&starting));
  launches.clear();
  current_visit = -1;
  listening = true;
  return 0;
}

// What is launched from here on belongs to this visit; to none where it is negative.
void cupti_visit(int visit) { current_visit = visit; }

// End of what is counted in this pass, with all launches done; 1 where no other pass is needed.
int cupti_end() {
  listening = false;
  PARAMETERS(CUpti_RangeProfiler_Stop_Params, stopping);
  stopping.pRangeProfilerObject = profiler;
  REQUIRE(cuptiRangeProfilerStop(&stopping));
  if (is_first_pass) {
    if (!stopping.isAllPassSubmitted) launches_of_first_pass = launches;
  } else if (!same_kernels(launches, launches_of_first_pass)) {
    passes_differ = true;
  }
  is_first_pass = false;
  return stopping.isAllPassSubmitted ? 1 : 0;
}

// Number of kernels that were counted, after the last pass; negative where they are not those that were launched.
int cupti_decode() {
  if (launches_graph) return wrong(kGraph);
  if (passes_differ) return wrong("a launch has other kernels the next time");
  PARAMETERS(CUpti_RangeProfiler_DecodeData_Params, decoding);
  decoding.pRangeProfilerObject = profiler;
  REQUIRE(cuptiRangeProfilerDecodeData(&decoding));
  PARAMETERS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = counter_data.data();
  info.counterDataImageSize = counter_data.size();
  REQUIRE(cuptiRangeProfilerGetCounterDataInfo(&info));
  if (info.numTotalRanges == launches.size()) return static_cast<int>(launches.size());
  message = "it counted " + std::to_string(info.numTotalRanges) + " kernels where " +
            std::to_string(launches.size()) + " were launched";
  return -1;
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

// Empty what was decoded, before the next visits.
int cupti_forget() {
  forget_launches();
  return empty_counter_data();
}

// The same where passes are left, or nothing could be decoded: the next begin is that of the first pass.
int cupti_reset() {
  forget_launches();
  return disable() < 0 ? -1 : enable();
}

int cupti_launch_count() { return static_cast<int>(launches.size()); }

// The visit that a kernel belongs to; negative where it belongs to none.
int cupti_launch_visit(int number) { return launches[number].visit; }

// Its name, as people write it; valid until the next call.
const char* cupti_launch_kernel(int number) {
  static std::string name;
  name = demangled(launches[number].kernel.c_str());
  return name.c_str();
}

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

// Give the counters back.
int cupti_close() {
  const int disabled = disable();
  return close_host() < 0 ? -1 : disabled;
}

}  // extern "C"
