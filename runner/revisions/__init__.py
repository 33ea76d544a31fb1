"""Versions of one workload by git revision, in one process."""
