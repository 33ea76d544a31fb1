"""Numbers of docs/verdicts.md that recordings hold."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from doc_tables import RECORDINGS, findings_of
from recorded import report_of_recording

from profiler.analyse.judge import visit_times
from profiler.analyse.verdicts import compare, noise_floors
from profiler.model import SessionKind, Verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "verdicts"))

from measured import between_sessions


def slow_visits():
    """How many measured cells of the recordings have slow visits."""
    recordings = [findings_of(file.stem) for file in sorted(RECORDINGS.glob("*.zip"))]
    slow = sum(len(findings.numbers.slow_visits) for findings in recordings)
    measured = sum(len(findings.programs.correct_cells) for findings in recordings)
    return f"In the {len(recordings)} recordings {slow} of {measured} measured cells have some.\n"


def sessions():
    """The table of offsets between the timing blocks and the confirmation."""
    reports = [report_of_recording(file) for file in sorted(RECORDINGS.glob("*.zip"))]
    return f"{between_sessions(reports)}\n"


BLOCKS, TWICE = 6, 2.0
"""As many blocks decide, and this is an effect far outside of any noise."""


@cache
def six_blocks():
    """Pairs by the first six blocks of the recordings: `large found equal called`, as numbers.

    Each variant is in a family with the second visits of the baseline, as two of three versions are
    of which the third is the baseline: large effects, how many of them are FASTER or SLOWER, pairs
    of the baseline with itself, and how many of those are.
    """
    counts = [
        _counts(compared)
        for file in sorted(RECORDINGS.glob("*.zip"))
        for compared in _by_six(report_of_recording(file))
    ]
    return tuple(sum(column) for column in zip(*counts, strict=True))


def _by_six(report):
    """Comparisons with the baseline, then of the baseline with itself; one frame or none."""
    times = visit_times(
        report.measured.samples, report.plan.cells, SessionKind.TIMING, blocks=BLOCKS
    )
    logs = np.log(times.pivot(index=["problem", "variant", "arm"], columns="block")["duration_ns"])
    logs = logs[logs.notna().all(axis=1)] if len(logs.columns) == BLOCKS else logs.iloc[:0]
    rows = []
    for _, by_place in logs.groupby(level="problem"):
        visits = by_place.droplevel("problem")
        if (report.plan.baseline, 0) in visits.index and (report.plan.baseline, 1) in visits.index:
            first, again = visits.loc[report.plan.baseline, 0], visits.loc[report.plan.baseline, 1]
            candidates = visits.drop(index=report.plan.baseline, level="variant")
            rows += [(candidate - first, again - first) for _, candidate in candidates.iterrows()]
    if not rows:
        return
    equal = pd.Series(np.concatenate([row[1] for row in rows]))
    floors = noise_floors(equal, pd.Series(np.repeat(range(len(rows)), BLOCKS), name="family"))
    pairs = pd.DataFrame({"family": floors.index.repeat(2), "noise_floor": floors.repeat(2)})
    pairs = pairs.reset_index(drop=True)
    values = np.array(rows).reshape(-1, BLOCKS)
    blocks = pd.DataFrame(
        {"pair": np.repeat(range(len(values)), BLOCKS), "log_ratio": values.ravel()}
    )
    yield compare(blocks, pairs)


def _counts(compared):
    called = compared["verdict"].isin([Verdict.FASTER, Verdict.SLOWER])
    large = np.abs(np.log(compared["ratio"])) > np.log(TWICE)
    candidate = np.arange(len(compared)) % 2 == 0
    return (
        int((large & candidate).sum()),
        int((large & candidate & called).sum()),
        int((~candidate).sum()),
        int((~candidate & called).sum()),
    )


def by_six_blocks():
    """What six blocks of the recordings say, as a sentence."""
    large, found, equal, called = six_blocks()
    return (
        f"By the first six blocks of the recordings, {found} of {large} cells that take more than "
        "twice, or less than half,\nthe baseline's time are "
        f"{Verdict.FASTER.word} or {Verdict.SLOWER.word}, each beside the "
        f"second visits of the baseline as a third version; these are in\n{called} of {equal} "
        "families.\n"
    )


VERDICT_BLOCKS = {
    "slow-visits": slow_visits,
    "between-sessions": sessions,
    "six-blocks": by_six_blocks,
}
