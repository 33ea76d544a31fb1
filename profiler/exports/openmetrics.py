"""OpenMetrics text (1.0): a gauge for each metric, with labels of the cell, at the time of the run.

Times are in seconds, as the format asks for; ends of intervals and ratios are gauges beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from profiler.history.answers import Answer, RunAnswers

_NOT_NAME = re.compile(r"[^a-zA-Z0-9_]")
_NS = "_ns"


def openmetrics_lines(of_run: RunAnswers) -> Iterator[str]:
    """Lines of the text, each with its end."""
    run = of_run.run
    when = f"{datetime.fromisoformat(run.created).timestamp():.3f}"
    told = {"experiment": run.experiment, "machine": run.machine, "commit": run.commit}
    yield "# TYPE profiler_run info\n"
    yield "# HELP profiler_run Of the run that the numbers are of.\n"
    yield f"profiler_run_info{_labels({**told, **run.versions})} 1 {when}\n"
    families: dict[tuple[str, str], list[tuple[Answer, float]]] = {}
    for answer in of_run.answers:
        for family, value in _values(answer):
            families.setdefault(family, []).append((answer, value))
    for (name, unit), samples in families.items():
        yield f"# TYPE {name} gauge\n"
        if unit:
            yield f"# UNIT {name} {unit}\n"
        for answer, value in samples:
            labels = {"variant": answer.variant, "problem": answer.problem, "cell": answer.cell}
            yield f"{name}{_labels({'experiment': run.experiment, **labels})} {value!r} {when}\n"
    yield "# EOF\n"


def _values(answer: Answer) -> Iterator[tuple[tuple[str, str], float]]:
    """Name and unit of each family that an answer is in, and its number there."""
    timed = answer.metric.endswith(_NS)
    unit, scale = ("seconds", 1e-9) if timed else ("", 1.0)
    stem = f"profiler_{_NOT_NAME.sub('_', answer.metric.removesuffix(_NS))}"
    suffix = f"_{unit}" if unit else ""
    numbers = {"": answer.value, "_low": answer.low, "_high": answer.high}
    for part, value in numbers.items():
        if value is not None:
            yield (f"{stem}{part}{suffix}", unit), value * scale
    ratios = {"": answer.ratio, "_low": answer.ratio_low, "_high": answer.ratio_high}
    for part, value in ratios.items():
        if value is not None:
            yield (f"{stem}{part}_to_baseline_ratio", "ratio"), value


def _labels(labels: dict[str, str]) -> str:
    """Labels with what the format escapes."""
    pairs = (f'{_NOT_NAME.sub("_", name)}="{_escaped(text)}"' for name, text in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
