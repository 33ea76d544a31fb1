"""The child process: imports torch, launches kernels inside NVTX ranges, never imports profiler."""
