"""Compiling, loading and marking kernels, and the workload of any `.cu` file."""
