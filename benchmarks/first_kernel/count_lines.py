"""Lines that each way takes besides the kernel: neither blank, nor comment, nor docstring.

`python benchmarks/first_kernel/count_lines.py`
"""

from __future__ import annotations

import ast
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WAYS = {
    "transpose": {
        "this project": ROOT / "experiments/transpose.yaml",
        "nsight-python": HERE / "transpose/with_nsight_python.py",
        "triton.testing": HERE / "transpose/with_triton_testing.py",
        "kernel_tuner": HERE / "transpose/with_kernel_tuner.py",
    },
    "softmax": {
        "this project": HERE / "softmax/with_profiler.py",
        "nsight-python": HERE / "softmax/with_nsight_python.py",
        "triton.testing": HERE / "softmax/with_triton_testing.py",
    },
    "bias and GELU": {"this project": HERE / "bias_gelu/with_profiler.py"},
}
"""Task → way → the file that a user writes beside the kernel."""


def count(file: Path) -> int:
    """Lines of a file that say something to a computer."""
    text = file.read_text(encoding="utf-8")
    skipped = _docstring_lines(text) if file.suffix == ".py" else set()
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in skipped
        for number, line in enumerate(text.splitlines(), start=1)
    )


def _docstring_lines(text: str) -> set[int]:
    first = ast.parse(text).body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return set(range(first.lineno, (first.end_lineno or 0) + 1)) if is_docstring else set()


if __name__ == "__main__":
    for task, ways in WAYS.items():
        for way, file in ways.items():
            print(f"{task}, {way}: {count(file)}")
