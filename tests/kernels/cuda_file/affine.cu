// Macros that no header would survive that is included after them.
#define value nothing
#define T float
#define Value 3
#define size(x) x

// A parameter of each size, in an order that leaves gaps between them.
__global__ void affine(const double* x, char shift, double scale, bool negate, float* y, long long n, unsigned short step) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i * step < n) y[i * step] = (negate ? -1 : 1) * (float)(x[i * step] * scale + shift);
}

__global__ void add_to(const float* x, float* sum, float weight) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  sum[i] += weight * x[i];
}
