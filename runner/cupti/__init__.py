"""Counters of kernels by CUPTI, in the runner itself."""
