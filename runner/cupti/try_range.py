"""Count one kernel by CUPTI, and print its duration: `python -P runner/cupti/try_range.py LIBRARY`.

For the doctor: an error of the driver or CUPTI is printed on stderr.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # started by its path, as the runner is
    sys.path.append(str(Path(__file__).absolute().parents[3]))

import torch

from profiler.runner.cupti.range_profiler import RangeProfiler, load_library
from profiler.runner.device import open_device

_DURATION = "gpu__time_duration.sum"


def main() -> int:
    """Print the duration of a kernel of torch in ns; 0, or an exception where that fails."""
    device = open_device("cuda")
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    library = load_library(Path(sys.argv[1]))
    counters = RangeProfiler(library, (_DURATION,), device, gpu, flush=False, most_kernels=16)
    x = torch.ones(1 << 20, device="cuda")
    counters.begin()
    counters.launch(0, x.neg_)
    counters.end()
    (kernel,) = counters.kernels([0])[0]
    counters.close()
    print(f"{kernel[_DURATION]:.0f}")  # noqa: T201 - the doctor reads it
    return 0


if __name__ == "__main__":
    sys.exit(main())
