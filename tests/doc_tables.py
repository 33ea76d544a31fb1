"""What writers of numbers in documents share: look-ups in recordings, Markdown, accounts."""

import textwrap
from math import exp, log
from pathlib import Path
from statistics import fmean

from recorded import RECORDINGS, findings_of_recording

from profiler.commands.explain import ExplainRequest, explained_pair
from profiler.render.words import numbers
from profiler.render.words.why import why_sentence

WIDTH = 118
MIB = 2**20


# ---- look-ups ------------------------------------------------------------------------------------


def findings_of(name):
    """Findings of a recording of `experiments/recordings`."""
    return findings_of_recording(RECORDINGS / f"{name}.zip")


def cell_of(findings, variant, **problem):
    """The cell of a variant (by id) at the only problem that has these parameters."""
    (place,) = (p for p in findings.programs.problems if problem.items() <= p.params.items())
    return findings.programs.by_place[variant, place.id]


def median(findings, cell, metric="duration_ns"):
    """Median of a cell, in the metric's unit."""
    return findings.numbers.values[cell.id, metric].median


# ---- Markdown ------------------------------------------------------------------------------------


def table(head, rows):
    """A Markdown table; `head`: names of its columns."""
    lines = (f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in (head, *rows))
    return next(lines) + "|---" * len(head) + "|\n" + "".join(lines)


def time(ns):
    return numbers.show(ns, "ns")


def word(verdict):
    """The verdict in one word."""
    return verdict.verdict.word if verdict.verdict else ""


def explained(recording, variant=None, against=None, problem=None):
    """What `profiler explain` says of a pair, as a quotation."""
    findings = findings_of_recording(recording)
    request = ExplainRequest(Path(recording.name), variant, against, problem)
    _, pair = explained_pair(findings, request)
    lines = textwrap.wrap(plain(why_sentence(pair)), WIDTH, break_on_hyphens=False)
    return "".join(f"> {line}\n" for line in lines)


def plain(text):
    """Text with ordinary spaces, which editors find and lines break at."""
    return text.replace("\u202f", " ")


def spread(ratios):
    """Geometric mean of ratios and their extremes, with three decimals or three digits."""
    mean = exp(fmean(log(ratio) for ratio in ratios))
    shown = [f"{r:.3f}" if r < 10 else f"{r:.3g}" for r in (mean, min(ratios), max(ratios))]
    return shown[0] if len(ratios) == 1 else f"{shown[0]} ({shown[1]} to {shown[2]})"
