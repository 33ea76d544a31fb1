"""The answers of one run in the history: a number for each cell and metric.

They are read from the content of its summary.json, or from records of PyTorch's benchmark database
(`pytorch/test-infra`, table oss_ci_benchmark_v3), which others write as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from profiler.analyse.intervals import median_intervals
from profiler.collect.registry import duration_metrics, timer_of
from profiler.errors import UsageError
from profiler.model import Outcome, Plan, seconds_of
from profiler.outside_text import safe

VERSION_FIELDS = ("driver", "cuda_driver", "nvcc", "ncu", "torch", "python", "profiler_version")
"""Fields of an environment that a history names where they change; `git_commit` has its own."""
_MACHINE_FIELDS = ("clock_control", "cache_control")
SHORT_COMMIT = 8
"""Digits of a commit in a history."""
_STATIC = ("cycles", "registers")
"""Metrics kept beside the primary one and all durations; other counters stay in the run."""


class Answer(NamedTuple):
    """One metric of one cell in one run; None is missing."""

    cell: str
    variant: str
    problem: str
    metric: str
    value: float
    low: float | None
    high: float | None
    """95 % interval of the median."""
    n: int
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    """To the baseline in the same run, paired block by block."""
    noise_floor: float | None
    """Relative A/A noise floor: how far the baseline varies within the run."""
    verdict: str | None


@dataclass(frozen=True)
class HistoryRun:
    """One run of a history, with its answers."""

    run: str
    """Folder in the folder of runs, or name of the archive or file of the run."""
    experiment: str
    created: str
    """ISO 8601."""
    source: str
    """run, recording, records, gate (the base of one)."""
    machine: str
    """GPU (or processor), clock and cache control, collector: durations are compared within one
    machine only."""
    card: str
    """UUID of the GPU; empty where unknown."""
    commit: str
    """First digits of the commit, and `+` for a dirty tree; empty where unknown."""
    baseline: str | None
    metric: str
    """The primary one."""
    versions: Mapping[str, str]
    """Known versions, by `VERSION_FIELDS`."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the problems in JSON, by name; empty where they are not known."""
    answers: tuple[Answer, ...] = ()
    """Empty where only the run was asked for."""

    @property
    def when(self) -> float:
        """Time at which the run began, in seconds since 1970; 0 where `created` is no time."""
        return seconds_of(self.created)

    @property
    def label(self) -> str:
        """Commit and day, for sentences."""
        return f"{self.commit} ({self.created[:10]})" if self.commit else self.created[:16]

    @property
    def record(self) -> dict[str, Any]:
        """The run as an object of JSON, without its answers."""
        return {name: value for name, value in vars(self).items() if name != "answers"}


def collector_of(plan: Plan) -> str | None:
    """Collector of a plan's durations."""
    return timer_of(plan)


def answers_of_summary(
    summary: Mapping[str, Any], run: str, source: str, collector: str | None
) -> HistoryRun:
    """A run with its answers, from the content of its summary.json.

    `collector`: what gave its durations. Raises UsageError for a document that is none of ours.
    """
    try:
        environment = summary["environment"]
        commit = str(environment.get("git_commit") or "")[:SHORT_COMMIT]
        machine = environment.get("gpu") or environment.get("cpu") or ""
        settings = [environment.get(field) for field in _MACHINE_FIELDS]
        record = HistoryRun(
            run=run,
            experiment=safe(summary["experiment"]),
            created=safe(summary["created"]),
            source=source,
            machine=" · ".join(safe(str(part)) for part in (machine, *settings, collector) if part),
            card=safe(str(environment.get("gpu_uuid") or "")),
            commit=f"{commit}+" if commit and environment.get("git_dirty") else commit,
            baseline=summary.get("baseline"),
            metric=summary["answer"]["metric"],
            versions={f: safe(str(environment[f])) for f in VERSION_FIELDS if environment.get(f)},
            problems={
                safe(cell["problem"]): json.dumps(cell["problem_params"], sort_keys=True)
                for cell in summary["cells"]
                if "problem_params" in cell
            },
        )
        kept_metrics = {record.metric, *_STATIC, *duration_metrics().values()}
        return replace(record, answers=tuple(_summary_answers(summary["cells"], kept_metrics)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{run}: damaged, or none of this program: {_fault(error)}") from error


def _fault(error: Exception) -> str:
    """The key that a document lacks, or another error of reading it."""
    return f"it has no {error}" if isinstance(error, KeyError) else repr(error)


def _summary_answers(
    cells: Sequence[Mapping[str, Any]], kept_metrics: Collection[str]
) -> Iterator[Answer]:
    for cell in cells:
        is_right = Outcome(cell.get("outcome", Outcome.MEASURED)).correct
        for metric, numbers in cell["metrics"].items() if is_right else ():
            value = _number(numbers.get("median"))
            if value is None or metric not in kept_metrics:
                continue
            yield Answer(
                safe(cell["id"]),
                safe(cell["variant"]),
                safe(cell["problem"]),
                metric,
                value,
                _number(numbers.get("low")),
                _number(numbers.get("high")),
                int(numbers.get("n") or 0),
                _number(numbers.get("ratio")),
                _number(numbers.get("ratio_low")),
                _number(numbers.get("ratio_high")),
                _number(numbers.get("noise_floor")),
                numbers.get("verdict"),
            )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


# ---- records of PyTorch's benchmark database -----------------------------------------------------


def answers_of_records(records: Sequence[Any], file: str) -> tuple[HistoryRun, ...]:
    """Runs of benchmark v3 records: one for each benchmark, time, commit and device.

    Model and backend are the variant, the input shape or the inputs are the problem, the median of
    `benchmark_values` is the number. Raises UsageError for records of another form.
    """
    runs: dict[str, tuple[HistoryRun, list[Answer]]] = {}
    for place, record in enumerate(records, start=1):
        try:
            run, answers = _record_run(record, file), list(_record_answers(record))
        except (
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            ValueError,
            OverflowError,
        ) as error:
            raise UsageError(
                f"{file}: record {place} is no benchmark v3 record: {_fault(error)}"
            ) from error
        runs.setdefault(repr(run), (run, []))[1].extend(answers)
    return tuple(
        replace(
            run,
            metric=answers[0].metric,
            # Of a cell that was written again the last.
            answers=tuple({(answer.cell, answer.metric): answer for answer in answers}.values()),
        )
        for run, answers in runs.values()
        if answers
    )


def _record_run(record: Mapping[str, Any], file: str) -> HistoryRun:
    """The run of a record; its primary metric is not known yet."""
    runner = (record.get("runners") or [{}])[0]
    machine = runner.get("gpu_info") or runner.get("cpu_info") or runner.get("type") or ""
    versions = {
        safe(name): safe(
            str(dependency.get("version") or str(dependency.get("sha") or "")[:SHORT_COMMIT])
        )
        for name, dependency in (record.get("dependencies") or {}).items()
    }
    when = datetime.fromtimestamp(int(record.get("timestamp") or 0), UTC)
    return HistoryRun(
        run=file,
        experiment=safe(record["benchmark"]["name"]),
        created=when.isoformat(timespec="seconds"),
        source="records",
        machine=safe(str(machine)),
        card="",
        commit=safe(str(record.get("head_sha") or ""))[:SHORT_COMMIT],
        baseline=None,
        metric="",
        versions={name: version for name, version in versions.items() if version},
    )


def _record_answers(record: Mapping[str, Any]) -> Iterator[Answer]:
    benchmark, model, metric = record["benchmark"], record["model"], record["metric"]
    values = [float(value) for value in metric["benchmark_values"]]
    finite = np.array([value for value in values if math.isfinite(value)])
    if not len(finite):
        return
    low, high = (_number(end[0].item()) for end in median_intervals(finite[np.newaxis]))
    extra = metric.get("extra_info") or {}
    problem = (benchmark.get("mode"), benchmark.get("dtype"), extra.get("input_shape"))
    parts = {
        "variant": (model["name"], model.get("backend")),
        "problem": (*problem, *(record.get("inputs") or {})),
    }
    variant, problem_name = (
        " ".join(safe(str(part)) for part in name_parts if part) for name_parts in parts.values()
    )
    yield Answer(
        f"{variant} | {problem_name}",
        variant,
        problem_name,
        safe(metric["name"]),
        float(np.median(finite)),
        low,
        high,
        len(finite),
        ratio=None,
        ratio_low=None,
        ratio_high=None,
        noise_floor=None,
        verdict=None,
    )
