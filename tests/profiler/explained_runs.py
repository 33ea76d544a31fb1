"""A run with an explain session, for tests: three softmax kernels, recorded on an H200."""

import dataclasses
from pathlib import Path

from profiler.commands.report import read_run
from profiler.findings.find import find
from profiler.findings.why.find import find_why
from profiler.run_folder.archive import open_run

SOFTMAX = Path(__file__).parents[1] / "recordings/explained.zip"


def softmax_findings():
    """Findings of the recording, read anew."""
    return find(read_run(open_run(SOFTMAX)))


def answer_pair(findings):
    """The pair that the answer of a run is about."""
    pair = find_why(findings).answer
    assert pair is not None
    return pair


def with_verdict(pair, verdict):
    """The pair as if another verdict had been given on it."""
    return dataclasses.replace(pair, verdict=dataclasses.replace(pair.verdict, verdict=verdict))
