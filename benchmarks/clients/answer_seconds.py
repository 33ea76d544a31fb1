"""Seconds from an empty folder to a page that says why, beside other tools; needs a GPU and ncu.

    python benchmarks/clients/answer_seconds.py

RMSNorm of torch, `torch.compile`, Liger-Kernel and a Triton kernel of one's own, at three sizes;
the same again after that kernel was edited; a kernel of a `.cu` file against torch at two sizes.
Durations and counters by CUPTI, why by ncu; caches of compilers are empty at the beginning. Beside
the first: the same launches by `triton.testing.do_bench`, and by nsight-python where it is
installed, each with empty caches too.
Exits 1 where a bar is missed.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
LIMIT_S = 300
VARIANTS = ("eager", "functional", "compiled", "liger", "own")
EDIT = ("num_warps=8", "num_warps=4")
"""Another launch of the same Triton kernel, which is compiled anew."""


def seconds_of(folder: Path, caches: Path, *arguments: str) -> float:
    """Seconds of a Python process in a folder; its last line is printed.

    Raises:
        SystemExit: It failed.

    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(PROJECT), os.environ.get("PYTHONPATH", ""))),
        "XDG_CACHE_HOME": str(caches / "xdg"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
    }
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    seconds = time.perf_counter() - began
    print(done.stdout[-2500:], flush=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr[-2000:]}")
    return seconds


def seconds_of_nsight_python(norm: Path, caches: Path) -> float:
    """Seconds of nsight-python for all variants; NaN where it fails, which is printed."""
    try:
        return sum(seconds_of(norm, caches, "by_nsight_python.py", variant) for variant in VARIANTS)
    except SystemExit as error:
        print(error, flush=True)
        return math.nan


def main() -> int:
    """Measure and print the table; 1 where a bar is missed."""
    missed = []

    def row(case: str, seconds: float, bar_s: float | None) -> None:
        print(f"| {case} | {seconds:.1f} | {bar_s or 'none'} |", flush=True)
        if bar_s is not None and seconds > bar_s:
            missed.append(case)

    print("| case | seconds | bar |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="answers.") as name:
        folder = Path(name)
        norm = shutil.copytree(HERE / "rms_norm", folder / "rms_norm")
        run = ("-m", "profiler", "run")
        live = ("--live", "--fast", "--out", str(folder / "reports"))
        caches = folder / "caches"
        file = norm / "rms_norm.py"
        row("RMSNorm, 15 cells", seconds_of(norm, caches, *run, file.name, *live), 60)
        source = file.read_text("utf-8")
        if EDIT[0] not in source:
            raise SystemExit(f"{file.name} has nothing to edit")
        file.write_text(source.replace(*EDIT), "utf-8")
        again = seconds_of(norm, caches, *run, file.name, *live)
        row("again after an edit of one Triton kernel", again, 20)
        for path in (PROJECT / "experiments").glob("transpose.*"):
            shutil.copy(path, folder)
        only = ("--only", "variant=torch|padded")
        kernel = seconds_of(folder, caches, *run, "transpose.yaml", *only, *live)
        row("one .cu kernel against torch, two sizes", kernel, 25)
        others = seconds_of(norm, folder / "caches of do_bench", "by_triton_testing.py")
        row("RMSNorm by triton.testing.do_bench", others, None)
        if find_spec("nsight"):
            others = seconds_of_nsight_python(norm, folder / "caches of nsight")
            row("RMSNorm by nsight-python, three runs", others, None)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
