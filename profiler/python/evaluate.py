"""Judging a candidate that may cheat, from a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from profiler.commands.check import checked_by
from profiler.commands.requests import CheckRequest
from profiler.findings.brief import brief
from profiler.python.run import DEFAULT_REPORTS
from profiler.python.run_experiment import file_of, yaml_value
from profiler.runner.experiment import Experiment


def evaluate(  # noqa: PLR0913 - the last three by keyword
    candidate: str | Path,
    incumbent: str | Path | Experiment,
    problems: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    budget: float | None = None,
    *,
    blocks: int | None = None,
    device: str | None = None,
    out: str | Path = DEFAULT_REPORTS,
) -> dict[str, Any]:
    """Judge the functions of a file against an experiment of functions, as the referee does.

    `candidate`: a Python file, or one function of it (`fast.py:sum_rows`). `incumbent`: the
    experiment with inputs, baseline and what tells right from wrong. `problems`: in place of its
    own: parameter → value or list of values, or a list of such. `budget`: seconds. Returns what
    `profiler check --json -` prints (docs/check.schema.json). Raises SpecError and UsageError as
    the command does, EnvironmentUnusable where nothing can be measured.
    """
    folder = Path(out)
    target = file_of(incumbent, folder) if isinstance(incumbent, Experiment) else Path(incumbent)
    settings = [] if problems is None else [f"problems={yaml_value(_section(problems))}"]
    request = CheckRequest(
        target,
        budget_s=budget,
        settings=settings,
        blocks=blocks,
        device=device,
        referee=Path(candidate),
        out=folder,
    )
    return brief(checked_by(request))


def _section(problems: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Problems as an experiment file has them."""
    if isinstance(problems, Mapping):
        return {"matrix": problems}
    return {"list": [{"params": dict(problem)} for problem in problems]}
