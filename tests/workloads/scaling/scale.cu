// A kernel, and a launcher that does the same on the CPU.
#ifdef BROKEN
#error "this variant does not compile"
#endif

__global__ void scale_kernel(const float *in, float *out, int size) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * UNROLL;
    for (int i = first; i < min(first + UNROLL, size); ++i) {
#if UNROLL == 4
        out[i] = 2.0f * in[i];
#else
        out[i] = in[i] + in[i];
#endif
    }
}

extern "C" void scale(const float *in, float *out, int size) {
    for (int i = 0; i < size; ++i) out[i] = 2.0f * in[i];
}
