// Sums of rows in two launches; no atomics, for a CPU runs the threads one after another.
#define made 3
#define field nothing

struct Scaling {
  double by;
};

struct OfParts {
  const double* partial;
  float* out;
  int sizes[2];
  Scaling scaling;
  int* calls;
};

template <int PARTS>
__global__ void sum_parts(const double* x, double* partial, int columns) {
  const int size = columns / PARTS, part = threadIdx.x, row = blockIdx.x;
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += x[row * columns + part * size + i];
  partial[row * PARTS + part] = sum;
}

__global__ void add_parts(OfParts of) {
  if (threadIdx.x != 0) return;
  const int call = of.calls[0]++;
  for (int row = 0; row < of.sizes[0]; ++row) {
    double sum = call;
    for (int part = 0; part < of.sizes[1]; ++part) sum += of.partial[row * of.sizes[1] + part];
    of.out[row] = sum * of.scaling.by;
  }
}
