"""Running an experiment from a script or a notebook, and judging a candidate that may cheat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from profiler.commands.check import checked_by
from profiler.commands.requests import CheckRequest, RunRequest
from profiler.commands.run import written_run
from profiler.findings.brief import brief
from profiler.planning.matrix import value_text
from profiler.python.notebook_source import notebook_source
from profiler.python.run import DEFAULT_REPORTS, Run
from profiler.run_folder.folder import write_atomic
from profiler.runner.experiment import Experiment, experiments_in
from profiler.sessions.progress import ProgressReporter

NOTEBOOK_FOLDER = ".notebook"


def run(  # noqa: PLR0913 - all but the experiment by keyword, with defaults
    experiment: Experiment,
    *,
    only: str | None = None,
    settings: Mapping[str, Any] | None = None,
    fresh: bool = False,
    out: str | Path = DEFAULT_REPORTS,
    quiet: bool = False,
) -> Run:
    """Measure an experiment, write its page, and return the run.

    `only`: cells, as `--only` names them. `settings`: keys of the experiment file with their values
    (`{"collect.blocks": 4}`). `fresh`: measure everything again. `out`: where runs are written.
    """
    folder = Path(out)
    request = RunRequest(
        spec=file_of(experiment, folder),
        out=folder,
        settings=[f"{key}={yaml_value(value)}" for key, value in (settings or {}).items()],
        only=only,
        fresh=fresh,
        quiet=quiet,
    )
    written = written_run(request, ProgressReporter.for_terminal(color="auto", quiet=quiet))
    return Run(written.findings, written.folder)


def file_of(experiment: Experiment, out: Path) -> Path:
    """The file that made an experiment, with its name where there are several in it.

    Of a notebook one that is written from its cells.
    """
    file = Path(experiment.file)
    if file.suffix == ".py" and file.is_file() and not _is_of_notebook(file):
        several = len(experiments_in(experiment.namespace.values())) > 1
        return file.with_name(f"{file.name}:{experiment.name}") if several else file
    path = out / NOTEBOOK_FOLDER / f"{experiment.name}.py"
    text = notebook_source(experiment)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomic(path, text)
    return path


def _is_of_notebook(file: Path) -> bool:
    """Whether a file is what a kernel of Jupyter calls a cell."""
    return file.parent.name.startswith("ipykernel_")


def yaml_value(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {yaml_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple | range):
        return f"[{', '.join(map(yaml_value, value))}]"
    return value_text(value)


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
