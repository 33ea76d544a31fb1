// Starts the kernels PROFILER_KERNEL of the file that is included before this one, by launch.cuh.

#ifdef PROFILER_STRUCTS
PROFILER_STRUCTS
#endif

// The only place that names the kernels, so that what the compiler has against one is said once. Its
// relocations say which kernels of the file are those that are started.
static constexpr auto profiler_kernels
    __attribute__((__used__, __section__(".data.rel.ro.profiler_kernel"))) =
        std::make_tuple(PROFILER_KERNEL);

#ifdef PROFILER_TENSORS
PROFILER_TENSORS
#endif

extern "C" const char* profiler_error_string(int profiler_code) {
  if (profiler_launcher::last_failure[0]) return profiler_launcher::last_failure;
  if (profiler_code == cudaErrorInvalidDeviceFunction)
    return "invalid device function: `kernel` names no __global__ function, or it was built for "
           "another GPU (build.arch)";
  if (profiler_code == cudaErrorCooperativeLaunchTooLarge)
    return "too many blocks for a cooperative launch: the GPU must hold all of them at once; take a "
           "smaller grid, with a loop over the rest in the kernel";
  return cudaGetErrorString(static_cast<cudaError_t>(profiler_code));
}

extern "C" const char* profiler_parameters(int profiler_launch) {
  static profiler_launcher::Text profiler_text;
  profiler_launcher::at_launch<int>(
      profiler_kernels, profiler_launch, [](auto profiler_number, auto profiler_kernel) {
        return profiler_launcher::write_parameters<profiler_number()>(profiler_text,
                                                                      profiler_kernel);
      });
  return profiler_text.letters;
}

extern "C" int profiler_allow_shared(int profiler_launch, int profiler_bytes) {
  profiler_launcher::last_failure[0] = 0;
  return profiler_launcher::at_launch<int>(
      profiler_kernels, profiler_launch, [=](auto, auto profiler_kernel) {
        return static_cast<int>(cudaFuncSetAttribute(
            profiler_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, profiler_bytes));
      });
}

extern "C" int profiler_launch(int profiler_launch, const unsigned* profiler_grid,
                               const unsigned* profiler_block, std::size_t profiler_shared,
                               bool profiler_cooperative, void* profiler_stream,
                               const profiler_launcher::Argument* profiler_arguments) {
  return profiler_launcher::at_launch<int>(
      profiler_kernels, profiler_launch, [=](auto profiler_number, auto profiler_kernel) {
        return profiler_launcher::launch_kernel<profiler_number()>(
            profiler_kernel, profiler_grid, profiler_block, profiler_shared, profiler_cooperative,
            profiler_stream, profiler_arguments);
      });
}
