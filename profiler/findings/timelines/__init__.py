"""Findings of timelines: units, phases, gaps, kernels and calls of each cell."""
