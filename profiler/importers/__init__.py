"""Files that users already have: of ncu, nsys, torch.profiler and inductor."""
