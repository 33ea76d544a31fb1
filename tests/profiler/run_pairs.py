"""Runs of a small experiment, the later ones made from the first."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from run_folders import H200, Workplace
from scaled_runs import scaled_copy

from profiler.comparison.compare import compare
from profiler.comparison.runs import read_runs

SPEC = """\
name: sums
title: Which sum
workload: ./workload.py
variants: {list: [plain, tree, loop, wide, fast, slow, odd]}
problems: {list: [small, large]}
collect: {blocks: 8, counter_samples: 1, metrics: [duration_ns, cycles, registers, l2_hit_pct]}
"""


FOLDER = b"<the folder>"
"""Where the folder's name stands in what was written."""


@cache
def _measured_once():
    """The older run, as a path and the content of each file, relative to their folder."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        place = Workplace(folder / "place", SPEC, H200)
        place.measure_all()
        contents = {
            file.relative_to(folder): file.read_bytes().replace(name.encode(), FOLDER)
            for file in folder.rglob("*")
            if file.is_file()
        }
        return place.run.path.relative_to(folder), contents


@cache
def _read_once():
    """The older run as it was measured, read: most tests change the newer one alone."""
    with TemporaryDirectory() as name:
        (run,) = read_runs([Pair(Path(name)).older])
        return run


class Pair:
    """A run of an experiment and copies of it, in a folder of their own."""

    def __init__(self, folder):
        older, contents = _measured_once()
        self.folder = folder
        self.older = folder / older
        self.copies = 0
        self.measured = {
            folder / path: content.replace(FOLDER, str(folder).encode())
            for path, content in contents.items()
        }
        for file, content in self.measured.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def copy(self, factors=None, **changes):
        """Another run, in which the cells that begin like this are slower by these factors."""
        self.copies += 1
        target = self.older.with_name(f"copy-{self.copies}")
        return scaled_copy(self.older, target, factors, seed=self.copies, **changes)

    def compare(self, *newer, **wanted):
        if wanted or not self._is_as_measured():
            return compare(read_runs([self.older, *newer], **wanted))
        return compare((_read_once(), *read_runs(newer)))

    def _is_as_measured(self):
        files = {file for file in self.older.rglob("*") if file.is_file()}
        measured = {file for file in self.measured if file.is_relative_to(self.older)}
        return files == measured and all(
            file.read_bytes() == self.measured[file] for file in measured
        )
