"""Runs of a small experiment, the later ones made from the first."""

from run_folders import H200, Workplace
from scaled_runs import scaled_copy

from profiler.comparison.runs import read_runs
from profiler.findings.runs.comparison import compare

SPEC = """\
name: sums
title: Which sum
workload: ./workload.py
variants: {list: [plain, tree, loop, wide, fast, slow, odd]}
problems: {list: [small, large]}
collect: {blocks: 8, counter_samples: 1, metrics: [duration_ns, cycles, registers, l2_hit_pct]}
"""


class Pair:
    """A run of an experiment and copies of it, in a folder of their own."""

    def __init__(self, folder):
        self.place = Workplace(folder / "place", SPEC, H200)
        self.place.measure_all()
        self.folder = folder
        self.older = self.place.run.path
        self.copies = 0

    def copy(self, factors=None, **changes):
        """Another run, in which the cells that begin like this are slower by these factors."""
        self.copies += 1
        target = self.older.with_name(f"copy-{self.copies}")
        return scaled_copy(self.older, target, factors, seed=self.copies, **changes)

    def compare(self, *newer, **wanted):
        return compare(read_runs([self.older, *newer], **wanted))
