"""Lies beside the workload, which imports it by its plain name."""

FACTOR = 2
