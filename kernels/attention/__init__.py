"""Shared by all attention kernels: problems, inputs, check, torch's attention, launches."""
