// A kernel, and a launcher that does the same on the CPU.
#ifdef BROKEN
#error "this variant does not compile"
#endif

__global__ void scale_kernel(const float *in, float *out, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = UNROLL * in[i] * (2.0f / UNROLL);
}

extern "C" void scale(const float *in, float *out, int size) {
    for (int i = 0; i < size; ++i) out[i] = 2.0f * in[i];
}
