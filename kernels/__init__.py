"""One folder per workload (`space.py` without torch, `workload.py`, `src/*.cu`), and `build.py`."""
