"""Reports and findings of the recordings of experiments, for tests: each is read once in a worker.

Files of tests that need them are run by one worker (`READ_RECORDINGS` in conftest.py).
"""

import json
from functools import cache
from pathlib import Path

from whole_runs import EVERYTHING

from profiler.commands.output import dump, report_document
from profiler.commands.report import read_run
from profiler.findings.find import find
from profiler.render.page import render_page
from profiler.run_folder.archive import open_run

RECORDINGS = Path(__file__).parents[1] / "experiments/recordings"
AS_ANOTHER = frozenset(
    {
        *("autotune", "fusion", "fusion_attention", "fusion_grid", "fusion_operators"),
        *("hopper_autotune", "hopper_causal", "hopper_timeline", "progression"),
        *("softmax", "softmax_forms", "timers", "timing_methods"),
    }
)
"""Recordings of a kind of page of which another is looked at: they are where all is tried."""
CAUSES = Path(__file__).parent / "recordings/causes"
"""Explain sessions of kernels that an engineer knows the reason of."""


def looked_at(names):
    """Those names of pages that are no recording of which another stands for the kind."""
    return [name for name in names if EVERYTHING or name not in AS_ANOTHER]


@cache
def report_of_recording(recording):
    return read_run(open_run(recording))


_FINDINGS = {}
_PAGES = {}
_TEXTS = {}
_DOCUMENTS = {}


def findings_of_recording(recording):
    if recording not in _FINDINGS:
        _FINDINGS[recording] = find(report_of_recording(recording))
    return _FINDINGS[recording]


def forget_findings(recording):
    """Have the next who asks for findings of a recording find them anew."""
    _FINDINGS.pop(recording, None)


def rendered_page(findings):
    """The page of findings of a recording, drawn once in a worker."""
    return _once(_PAGES, findings, render_page)


def summary_text(findings):
    """Text of summary.json of findings of a recording, made once in a worker."""
    return _once(_TEXTS, findings, lambda found: dump(report_document(found)))


def summary_of(findings):
    """What summary.json of a recording holds, read once in a worker: nobody changes it."""
    return _once(_DOCUMENTS, findings, lambda found: json.loads(summary_text(found)))


def _once(made, findings, make):
    if id(findings) not in made:
        made[id(findings)] = findings, make(findings)  # they live as long as their id
    return made[id(findings)][1]
