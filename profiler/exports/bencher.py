"""Bencher Metric Format: by benchmark and measure a value with its interval.

Its schema is bencher.dev/bmf.json. A benchmark is a cell; its durations are Bencher's own measure
`latency`, which is in nanoseconds.
"""

from __future__ import annotations

from profiler.history.answers import Answer, RunAnswers

_LONGEST_BENCHMARK, _LONGEST_MEASURE = 1024, 64
_OWN_MEASURES = {"duration_ns": "latency"}


def bencher_metrics(of_run: RunAnswers) -> dict[str, dict[str, dict[str, float]]]:
    """Values of a run by benchmark and measure."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for answer in of_run.answers:
        name = " / ".join((of_run.run.experiment, answer.variant, answer.problem))
        measure = _OWN_MEASURES.get(answer.metric, answer.metric)[:_LONGEST_MEASURE]
        found.setdefault(name[:_LONGEST_BENCHMARK], {})[measure] = _metric(answer)
    return found


def _metric(answer: Answer) -> dict[str, float]:
    ends = {"lower_value": answer.low, "upper_value": answer.high}
    known = {name: end for name, end in ends.items() if end is not None}
    return {"value": answer.value, **known}
