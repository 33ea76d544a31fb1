"""Variants of both attention kernels side by side, and the fastest of each as a reference."""
