"""What kernels are compiled by, loaded and marked with, and the workload of any `.cu` file."""
