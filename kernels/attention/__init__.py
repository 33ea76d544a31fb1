"""What all attention kernels share: problems, inputs, the check, torch's own, and how to launch."""
