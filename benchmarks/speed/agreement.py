"""How far what two runs of one experiment measured is apart, metric by metric.

    python benchmarks/speed/agreement.py FIRST SECOND

FIRST and SECOND are run folders or recordings, say one by CUPTI (`--fast`) and one by ncu. Prints a
Markdown table of the ratios FIRST ÷ SECOND of the medians of each cell that both measured, then how
often the verdicts on the baseline agree. Exits with 1 where one says FASTER and the other SLOWER.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiler.commands.report import read_run
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import Verdict
from profiler.run_folder.archive import open_run

CONTRARY = {str(Verdict.FASTER), str(Verdict.SLOWER)}


def findings_of(folder: str) -> Findings:
    """Findings of a run folder or recording."""
    return find(read_run(open_run(Path(folder))))


def ratios(first: Findings, second: Findings) -> dict[str, list[float]]:
    """Ratios of the medians of each cell, by metric; values of 0 have none."""
    found: dict[str, list[float]] = {}
    for (cell, metric), value in first.numbers.values.items():
        other = second.numbers.values.get((cell, metric))
        if other is not None and value.median and other.median:
            found.setdefault(metric, []).append(value.median / other.median)
    return found


def table(by_metric: dict[str, list[float]]) -> str:
    """The Markdown table, in the order of the catalogue."""
    lines = ["| metric | cells | median | 5 % | 95 % | furthest |", "|---|---|---|---|---|---|"]
    for metric in sorted(by_metric, key=list(CATALOGUE).index):
        values = np.array(by_metric[metric])
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
        furthest = values[np.argmax(np.abs(np.log(values)))]
        numbers = " | ".join(f"{value:.4f}" for value in (middle, low, high, furthest))
        lines.append(f"| {metric} | {len(values)} | {numbers} |")
    return "\n".join(lines)


def verdicts(first: Findings, second: Findings) -> Counter[tuple[str, str]]:
    """How often each pair of words is said of a cell against its baseline."""
    shared = first.verdicts.against_baseline.keys() & second.verdicts.against_baseline.keys()
    said = ((f.verdicts.against_baseline[cell].verdict for f in (first, second)) for cell in shared)
    return Counter((str(one), str(other)) for one, other in said if one and other)


def main() -> int:
    """Print both; 1 where verdicts are contrary."""
    first, second = map(findings_of, sys.argv[1:3])
    print(table({m: v for m, v in ratios(first, second).items() if m in CATALOGUE}))
    words = verdicts(first, second)
    for pair, count in sorted(words.items()):
        print(f"{' and '.join(pair)}: {count}")
    return int(any(set(pair) == CONTRARY for pair in words))


if __name__ == "__main__":
    sys.exit(main())
