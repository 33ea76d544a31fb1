"""Runs as data, running an experiment from a script or a notebook, and judging a candidate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from profiler import notices
from profiler.commands.check import checked_by
from profiler.commands.explain import explained_pair
from profiler.commands.output import report_document
from profiler.commands.report import read_run
from profiler.commands.requests import CheckRequest, ExplainRequest, RunRequest
from profiler.commands.run import written_run
from profiler.errors import UsageError
from profiler.findings.brief import brief
from profiler.findings.document import cell_table, summary_table, wide_table
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.findings.why.document import explain_document
from profiler.python.notebook_source import functions_of, notebook_source
from profiler.run_folder.archive import find_run, open_run
from profiler.run_folder.documents import write_atomic
from profiler.runner.experiment import Experiment, experiments_in, json_value
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_REPORTS = "reports"
NOTEBOOK_FOLDER = ".notebook"


class Run:
    """A run, a recording or a replay; a notebook shows it as its answer with a figure."""

    def __init__(self, findings: Findings, path: Path) -> None:
        self._findings = findings
        self.path = path
        """Folder or archive of the run."""

    def __repr__(self) -> str:
        return f"<profiler.Run {self.path}: {self.answer}>"

    def _repr_html_(self) -> str:
        from profiler.render.excerpts import run_html  # noqa: PLC0415 - loads matplotlib

        return run_html(self._findings)

    @property
    def answer(self) -> str:
        """Which is best, by how much, is it real, and why: a sentence, and a line for each."""
        from profiler.render.words.cards import first_answer  # noqa: PLC0415 - as above
        from profiler.render.words.sentences import spoken  # noqa: PLC0415 - not for every reader

        return "\n".join(map(spoken, first_answer(self._findings)))

    @property
    def summary(self) -> pd.DataFrame:
        """One row per cell and metric, with the columns of summary.csv.

        `cell variant problem alias_of`, `variant.KEY` and `problem.KEY` of each parameter, then
        `metric unit`, its numbers with ratio and rank, and the verdict of durations.
        """
        return summary_table(self._findings)

    @property
    def wide(self) -> pd.DataFrame:
        """One row per cell: experiment, GPU, parameters, outcome, a column per metric, verdict.

        Frames of several runs can be put below each other by `pandas.concat`.
        """
        return wide_table(self._findings)

    @property
    def samples(self) -> pd.DataFrame:
        """One row per measured launch: its cell with every parameter, and a column per metric."""
        return cell_table(self._findings.programs).merge(
            self._findings.report.measured.samples, on="cell"
        )

    @property
    def findings(self) -> dict[str, Any]:
        """Findings of the run as JSON-ready data (docs/summary.schema.json)."""
        return report_document(self._findings)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences on what limits the answer."""
        return tuple(notice.text for notice in notices.fold(self._findings.notices))

    def explain(
        self,
        variant: str | None = None,
        *,
        against: str | None = None,
        problem: str | None = None,
    ) -> dict[str, Any]:
        """Why a variant takes as long as it does, and differs from another (docs/explain.md).

        By default of the pair that the answer is about. Raises UsageError where nothing was
        explained, or not what is named.
        """
        request = ExplainRequest(self.path, variant=variant, against=against, problem=problem)
        cell, pair = explained_pair(self._findings, request)
        return explain_document(self._findings, cell, pair)

    def plot(
        self,
        metric: str = "duration_ns",
        against: str | None = None,
        *,
        ratio: bool = False,
        problem: str | None = None,
    ) -> Figure:
        """Figure of matplotlib: a metric of all versions with its interval, a panel a problem.

        `against`: another metric on the axis upwards. `ratio`: ratios to the baseline. Raises
        UsageError for a metric or a problem (its name) that was not measured.
        """
        from profiler.render.excerpts import metric_figure  # noqa: PLC0415 - loads matplotlib

        # A notebook may pass a parameter's value.
        problem = None if problem is None else str(problem)
        return metric_figure(self._findings, metric, problem, against=against, ratio=ratio)

    def markdown(self) -> str:
        """The answer and the main table for a pull request."""
        from profiler.render.excerpts import run_markdown  # noqa: PLC0415 - as above

        return run_markdown(self._findings)


def load(run: str | Path, *, reports: str | Path = DEFAULT_REPORTS) -> Run:
    """Read a run folder, an archive of one, or the newest run of an experiment by its name.

    `autotune~1` is the run before the newest. `reports`: where runs are looked for by name. Raises
    UsageError where there is no such run.
    """
    path = find_run(str(run), Path(reports))
    return Run(find(read_run(open_run(path))), path)


# ---- running an experiment -----------------------------------------------------------------------


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
        settings=[
            f"{key}={value if isinstance(value, str) else _yaml(value, key)}"
            for key, value in (settings or {}).items()
        ],
        only=only,
        fresh=fresh,
        quiet=quiet,
    )
    written = written_run(request, ProgressReporter.for_terminal(color="auto", quiet=quiet))
    return Run(written.findings, written.folder)


def file_of(experiment: Experiment, out: Path) -> Path:
    """The file that made an experiment, with its name where there are several in it.

    For an experiment of a notebook: a file that is written from the notebook's cells.
    """
    file = Path(experiment.file)
    if file.suffix == ".py" and file.is_file() and not _is_of_notebook(file):
        _require_all_of_file(experiment, file)
        has_several = len(experiments_in(experiment.namespace.values())) > 1
        return file.with_name(f"{file.name}:{experiment.name}") if has_several else file
    path = out / NOTEBOOK_FOLDER / f"{experiment.name}.py"
    text = notebook_source(experiment)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomic(path, text)
    return path


def _require_all_of_file(experiment: Experiment, file: Path) -> None:
    """Raise UsageError for a function of the script or notebook that imports the experiment."""
    for function in functions_of(experiment):
        module = getattr(function, "__module__", None)
        if module == "__main__" != experiment.namespace.get("__name__"):
            raise UsageError(
                f"'{getattr(function, '__name__', function)}' is marked for {experiment.name} "
                f"outside of {file.name}, which alone is measured.",
                remedy=f"Put it into {file.name}, or make an experiment here.",
            )


def _is_of_notebook(file: Path) -> bool:
    """Whether a file is the temporary file that Jupyter names for a cell."""
    return file.parent.name.startswith("ipykernel_")


def _yaml(value: Any, where: str) -> str:
    """YAML text of a value, in which texts such as `off` and `1.5` stay texts."""
    return json.dumps(json_value(value, where), ensure_ascii=False)


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
    settings = [] if problems is None else [f"problems={_yaml(_section(problems), 'problems')}"]
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
    """Section `problems` of an experiment file."""
    if isinstance(problems, Mapping):
        return {"matrix": problems}
    return {"list": [{"params": dict(problem)} for problem in problems]}
