"""Compiles what a plan launches: nvcc through ninja, and settings shared by its libraries."""
