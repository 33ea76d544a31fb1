"""The table of docs/softmax.md, and the answer to the twelve lines of README."""

import io
import re
import tempfile
from pathlib import Path

from doc_tables import WIDTH, cell_of, findings_of, median, plain, table, time, word
from recorded import RECORDINGS
from rich.console import Console

from profiler.commands.run import RunRequest, run_experiment
from profiler.render.words.numbers import TIMES
from profiler.sessions.progress import ProgressReporter

LARGEST = {"columns": 16384, "rows": 65536, "dtype": "float16"}
SHOWN = (
    *("vector-b1024-r1-v8", "vector-b512-r1-v8", "vector-b256-r1-v8", "vector-b256-r1-v8-m4"),
    *("shared-b256-v8", "shared-b256-v1", "online-b512-v8", "online-b256-v8", "warp-r4-v8"),
    *("naive-b512", "naive-b128", "torch", "torch-naive"),
)
"""Variants of which each has a reason to be in the table."""
README = Path(__file__).parents[1] / "README.md"


def twelve_lines():
    """What the console says first where the example of README is replayed."""
    (lines,) = re.findall(r"## Twelve lines\n\n```yaml\n(.*?)\n```", README.read_text(), re.DOTALL)
    quiet = Console(file=io.StringIO())
    shown = Console(file=io.StringIO(), width=WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernels").symlink_to(README.with_name("kernels"))
        spec = Path(folder, "softmax.yaml")
        spec.write_text(lines, encoding="utf-8")
        request = RunRequest(
            spec=spec, out=Path(folder), replay=RECORDINGS / "softmax.zip", no_report=True
        )
        run_experiment(request, ProgressReporter(shown, quiet))
    answer = plain(shown.file.getvalue()).strip().split("\n\n")[0]
    return f"```text\n{answer}\n```\n"


def largest_problem():
    """Variants at the largest problem by the timing blocks, which all of them have."""
    findings = findings_of("softmax")
    cells = [cell_of(findings, variant, **LARGEST) for variant in SHOWN]
    cells.sort(key=lambda cell: findings.numbers.block_values[cell.id, "duration_ns"].median)
    head = ("variant", "time", f"{TIMES} `torch`", "verdict", "least traffic ÷ time", "DRAM read")
    counted = ("DRAM written", "L2 hit", "registers", "bank conflicts")
    return table((*head, *counted), (_largest_row(findings, cell) for cell in cells))


def _largest_row(findings, cell):
    duration = findings.numbers.block_values[cell.id, "duration_ns"]
    verdict = findings.verdicts.against_baseline.get(cell.id)
    conflicts = median(findings, cell, "bank_conflicts")
    return (
        f"`{cell.variant.label}`",
        time(duration.median),
        f"{duration.ratio:.3f}",
        word(verdict) if verdict else "baseline",
        f"{2 * cell_bytes(cell) / duration.median:.0f} GB/s",
        *(
            f"{median(findings, cell, f'dram_{way}_bytes') / 1e9:.2f} GB"
            for way in ("read", "write")
        ),
        f"{median(findings, cell, 'l2_hit_pct'):.0f} %",
        f"{median(findings, cell, 'registers'):.0f}",
        f"{conflicts / 1e6:.1f} M",
    )


def cell_bytes(cell):
    """Bytes of the matrix of a cell."""
    params = cell.problem.params
    return params["columns"] * params["rows"] * {"float16": 2, "float32": 4}[params["dtype"]]
