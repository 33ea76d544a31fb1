"""What timelines show: units, phases, gaps, kernels and calls of each cell, found once."""
