"""Answers of a run in the formats of other programs.

PyTorch's benchmark database, version 3 (table `oss_ci_benchmark_v3` of `pytorch/test-infra`):
values are lists of numbers, all other facts stand in `extra_info` as text; repository,
branch, workflow and job are those of the upload, which adds them.

OpenMetrics text 1.0: times are in seconds, as the format asks for; ends of intervals and ratios are
gauges beside them.

Bencher Metric Format (bencher.dev/bmf.json): a benchmark is a cell; its durations are Bencher's own
measure `latency`, which is in nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from profiler.history.answers import Answer, HistoryRun

_NAME = "kernel-profiler"
_DTYPE = "dtype"


def pytorch_records(
    run: HistoryRun,
    durations_ns: Mapping[str, Sequence[float]],
    problems: Mapping[str, Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """A record of PyTorch's database for each metric of each cell.

    `durations_ns`: durations of the blocks, by cell; `problems`: parameters of the problem by cell.
    """
    shared = {
        "timestamp": int(run.when),
        "schema_version": "v3",
        "name": _NAME,
        "head_sha": run.commit,
        "runners": [
            {
                "type": run.machine,
                "gpu_info": run.machine.split(" \u00b7 ")[0],
                "gpu_count": 1,
                "extra_info": {"card": run.card},
            }
        ],
        "dependencies": {name: {"version": version} for name, version in run.versions.items()},
    }
    for answer in run.answers:
        params = problems.get(answer.cell, {})
        values = durations_ns.get(answer.cell, ()) if answer.metric == "duration_ns" else ()
        yield {
            **shared,
            "benchmark": {
                "name": run.experiment,
                "dtype": str(params.get(_DTYPE, "")),
                "extra_info": {"cell": answer.cell},
            },
            "model": {"name": answer.variant, "type": "kernel"},
            "inputs": {
                answer.problem: {
                    "dtype": str(params.get(_DTYPE, "")),
                    "extra_info": {key: str(value) for key, value in params.items()},
                }
            },
            "metric": {
                "name": answer.metric,
                "benchmark_values": list(values) or [answer.value],
                "extra_info": _extra_info(answer),
            },
        }


def _extra_info(answer: Answer) -> dict[str, str]:
    """Interval, ratio, noise floor and verdict of an answer, as text; missing ones are left out."""
    fields = ("low", "high", "n", "ratio", "ratio_low", "ratio_high", "noise_floor", "verdict")
    values = {name: getattr(answer, name) for name in fields}
    return {name: str(value) for name, value in values.items() if value is not None}


# ---- OpenMetrics ---------------------------------------------------------------------------------


_NOT_NAME = re.compile(r"[^a-zA-Z0-9_]")
_NS = "_ns"


def openmetrics_lines(run: HistoryRun) -> Iterator[str]:
    """OpenMetrics: gauges of each metric, with labels of the cell and the time of the run."""
    timestamp = f"{run.when:.3f}"
    origin = {"experiment": run.experiment, "machine": run.machine, "commit": run.commit}
    yield "# TYPE profiler_run info\n"
    yield "# HELP profiler_run Of the run that the numbers are of.\n"
    yield f"profiler_run_info{_labels({**origin, **run.versions})} 1 {timestamp}\n"
    families: dict[tuple[str, str], list[tuple[Answer, float]]] = {}
    for answer in run.answers:
        for family, value in _values(answer):
            families.setdefault(family, []).append((answer, value))
    for (name, unit), samples in families.items():
        yield f"# TYPE {name} gauge\n"
        if unit:
            yield f"# UNIT {name} {unit}\n"
        for answer, value in samples:
            labels = {"variant": answer.variant, "problem": answer.problem, "cell": answer.cell}
            label_text = _labels({"experiment": run.experiment, **labels})
            yield f"{name}{label_text} {value!r} {timestamp}\n"
    yield "# EOF\n"


def _values(answer: Answer) -> Iterator[tuple[tuple[str, str], float]]:
    """Name and unit of each metric family of an answer, and the answer's number in that family."""
    is_duration = answer.metric.endswith(_NS)
    unit, scale = ("seconds", 1e-9) if is_duration else ("", 1.0)
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
    """Labels in braces, with the escapes of the format."""
    pairs = (f'{_NOT_NAME.sub("_", name)}="{_escaped(text)}"' for name, text in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# ---- Bencher Metric Format -----------------------------------------------------------------------


_LONGEST_BENCHMARK, _LONGEST_MEASURE = 1024, 64
_OWN_MEASURES = {"duration_ns": "latency"}


def bencher_metrics(run: HistoryRun) -> dict[str, dict[str, dict[str, float]]]:
    """Values of a run with their intervals in Bencher's format, by benchmark and measure."""
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for answer in run.answers:
        name = " / ".join((run.experiment, answer.variant, answer.problem))
        measure = _OWN_MEASURES.get(answer.metric, answer.metric)[:_LONGEST_MEASURE]
        benchmarks.setdefault(name[:_LONGEST_BENCHMARK], {})[measure] = _metric(answer)
    return benchmarks


def _metric(answer: Answer) -> dict[str, float]:
    ends = {"lower_value": answer.low, "upper_value": answer.high}
    interval = {name: end for name, end in ends.items() if end is not None}
    return {"value": answer.value, **interval}
