"""Compiles what a plan launches: nvcc through ninja, and what its libraries have in common."""
