// Starts the kernel PROFILER_KERNEL of the file that is included before this one, by launch.cuh.

// The only place that names the kernel, so that what the compiler has against it is said once.
static constexpr auto* profiler_function = PROFILER_KERNEL;

#ifdef PROFILER_TENSORS
PROFILER_TENSORS
#endif

// Its relocation says which kernel of the file is the one that is started.
extern "C" __attribute__((used, section(".data.rel.ro.profiler_kernel")))
const void* const profiler_kernel = reinterpret_cast<const void*>(profiler_function);

extern "C" const char* profiler_error_string(int profiler_code) {
  return cudaGetErrorString(static_cast<cudaError_t>(profiler_code));
}

extern "C" const char* profiler_parameters() {
  static const std::string profiler_text = profiler_launcher::parameters(profiler_function);
  return profiler_text.c_str();
}

extern "C" int profiler_allow_shared(int profiler_bytes) {
  return cudaFuncSetAttribute(profiler_function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              profiler_bytes);
}

extern "C" int profiler_launch(const unsigned* profiler_grid, const unsigned* profiler_block,
                               std::size_t profiler_shared, void* profiler_stream,
                               const profiler_launcher::Argument* profiler_arguments) {
  return profiler_launcher::launch(profiler_function, profiler_grid, profiler_block, profiler_shared,
                                   profiler_stream, profiler_arguments);
}
