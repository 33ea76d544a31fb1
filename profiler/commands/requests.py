"""Requests of the commands: arguments and flags, declared once.

A field that is annotated with an argument or option of typer is one on the command line, and the
text below the class is the help of its command (`profiler/cli.py` reads both); a program makes the
same request by its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from profiler.errors import UsageError
from profiler.model import Verdict

if TYPE_CHECKING:
    from profiler.machine.environment import Inquiry
    from profiler.sessions.execution import Budget
    from profiler.sessions.preloaded import Preloading
else:
    # Their modules take longer to import than all else here, and no flag is of them.
    Budget = Inquiry = Preloading = Any

Spec = Annotated[
    Path,
    Argument(
        metavar="SPEC", help="The experiment: a YAML file, or Python with a profiler.Experiment."
    ),
]
Run = Annotated[
    Path,
    Argument(
        metavar="RUN",
        help="A run folder, a zip archive of one such as a recording, or the name of an experiment "
        "(its newest run, else its recording; NAME~1 is the run before).",
    ),
]
Reports = Annotated[
    Path, Option("--reports", metavar="DIR", help="Where names of runs are looked up.")
]
Out = Annotated[Path, Option("--out", metavar="DIR", help="Where runs are written.")]
PageOut = Annotated[Path | None, Option("--out", metavar="PAGE", help="Where the page is written.")]
Json = Annotated[
    str | None, Option("--json", metavar="PATH|-", help="Also write JSON; - is stdout.")
]
Markdown = Annotated[
    str | None,
    Option(
        "--markdown",
        metavar="PATH|-",
        help="Also write answer and main table for a pull request; - is stdout.",
    ),
]
Only = Annotated[
    str | None,
    Option("--only", metavar="K=V,…", help="Only the cells that match; a|b for alternatives."),
]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Override a field of the spec; repeatable."),
]
Baseline = Annotated[
    str | None, Option("--baseline", metavar="NAME", help="Compare with this variant.")
]
Blocks = Annotated[
    int | None, Option("--blocks", metavar="N", min=1, help="Timing blocks; collect.blocks.")
]
FailOn = Annotated[
    str | None,
    Option(
        "--fail-on",
        metavar="regression[:PERCENT]",
        help=f"Exit code 5 if a cell is {Verdict.SLOWER.word} by more than PERCENT (default 0).",
    ),
]
BudgetSeconds = Annotated[
    float | None,
    Option(
        "--budget",
        metavar="S",
        min=0,
        help="After so many seconds begin only the first look; the same command without the flag "
        "resumes.",
    ),
]
RunFailOn = Annotated[
    str | None,
    Option(
        "--fail-on",
        metavar="regression[:PERCENT]|METRIC>NUMBER",
        help=f"Exit code 5 if a cell is {Verdict.SLOWER.word} by more than PERCENT (default 0), "
        "or its metric is beyond a number: duration>120us, l2_hit_pct<60.",
    ),
]
Color = Annotated[
    str, Option("--color", metavar="auto|always|never", help="Colour on the console.")
]
Problem = Annotated[
    str | None, Option("--problem", metavar="NAME", help="Of several problems, this one.")
]
Device = Annotated[
    str | None, Option("--device", metavar="cuda:N|cpu", help="Where to measure; collect.device.")
]
Timer = Annotated[
    bool, Option("--timer", help="Judge by CUDA events, without ncu; collect.collectors=timer.")
]
Fast = Annotated[
    bool,
    Option(
        "--fast",
        help="Time and count by CUPTI in one process; ncu, if present, explains; "
        "collect.collectors=cupti.",
    ),
]
Referee = Annotated[
    Path | None,
    Option(
        "--referee",
        metavar="CANDIDATE.py",
        help="Judge the functions of this file, which may cheat, beside those of FILE (Python): "
        "in a process of its own, on new inputs (docs/referee.md).",
    ),
]
OpenPage = Annotated[bool, Option("--open", help="Open the page in a browser.")]
NoReport = Annotated[bool, Option("--no-report", help="Do not write the page.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress, only results.")]
Verbose = Annotated[
    bool, Option("--verbose", "-v", help="Print every table and notice, and each process started.")
]

DEFAULT_OUT = Path("reports")


_SHORT_FORMS = {
    "blocks": "collect.blocks",
    "baseline": "baseline",
    "timeout": "collect.time_limit_s",
    "explains": "collect.explain",
    "collector": "collect.collectors",
    "device": "collect.device",
}
"""Field of the spec by the attribute of a request that is short for one."""
_MEASURING_FLAGS = {
    "settings": "--set",
    "blocks": "--blocks",
    "budget_s": "--budget",
    "timer": "--timer",
    "fast": "--fast",
    "device": "--device",
}
"""Flag by the attribute of a request that says how an experiment is measured."""


def given_flags(request: object, flags: Mapping[str, str]) -> tuple[str, ...]:
    """Flags to which a request gives a value; `flags`: flag by the attribute of the request."""
    values = {flag: getattr(request, name, None) for name, flag in flags.items()}
    return tuple(
        flag
        for flag, value in values.items()
        if value or isinstance(value, float)  # a budget of 0
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class ExperimentFlags:
    """Flags of all commands that measure an experiment: what is laid over its file."""

    settings: Set = None
    timer: Timer = False
    fast: Fast = False
    device: Device = None
    color: Color = "auto"

    @property
    def collector(self) -> str | None:
        """The collector that a flag names; raises UsageError for two."""
        if self.timer and self.fast:
            raise UsageError(
                "--timer and --fast name different collectors.", remedy="Give one of them."
            )
        return "timer" if self.timer else "cupti" if self.fast else None

    @property
    def overrides(self) -> tuple[str, ...]:
        """`key=value` texts of --set, and of the flags that stand for such texts."""
        values = ((key, getattr(self, name, None)) for name, key in _SHORT_FORMS.items())
        flags = (f"{key}={value}" for key, value in values if value is not None)
        return (*(self.settings or ()), *flags)

    @property
    def measuring_flags(self) -> tuple[str, ...]:
        """Given flags that say how an experiment is measured."""
        return given_flags(self, _MEASURING_FLAGS)


@dataclass(frozen=True, eq=False, kw_only=True)
class DaskFlags:
    """Flags of both sides of a run on workers: how they speak to Dask."""

    no_dashboard: Annotated[
        bool, Option("--no-dashboard", help="Without Dask's HTTP server and its dashboard.")
    ] = False
    tls_ca: Annotated[
        Path | None,
        Option("--tls-ca", metavar="PEM", help="TLS: certificate of the authority (CA)."),
    ] = None
    tls_cert: Annotated[
        Path | None, Option("--tls-cert", metavar="PEM", help="TLS: certificate of this side.")
    ] = None
    tls_key: Annotated[
        Path | None, Option("--tls-key", metavar="PEM", help="TLS: private key of this side.")
    ] = None

    @property
    def tls(self) -> tuple[Path | None, Path | None, Path | None]:
        """Files of TLS: authority, certificate and key; None where a flag is not given."""
        return self.tls_ca, self.tls_cert, self.tls_key


@dataclass(frozen=True, eq=False)
class NewRequest:
    """Write a folder with a working, commented experiment to edit."""

    kind: Annotated[str, Argument(metavar="KIND", help="python, triton, cuda or command.")]
    name: Annotated[str, Argument(metavar="NAME", help="Name of the folder and of the experiment.")]
    color: Color = "auto"
    folder: Path = Path()
    """Where the new folder is made."""


@dataclass(frozen=True, eq=False)
class PlanRequest(ExperimentFlags):
    """Show the cells, the excluded ones with the reason, and the sessions; needs no GPU."""

    spec: Spec
    only: Only = None
    blocks: Blocks = None
    baseline: Baseline = None
    out: Out = DEFAULT_OUT
    json_target: Json = None


def _now() -> str:
    from datetime import datetime

    return datetime.now().astimezone().isoformat(timespec="seconds")


# Whatever `plan` shows can be run by the same flags.
@dataclass(frozen=True, eq=False)
class RunRequest(PlanRequest, DaskFlags):
    """Build, check and measure every kernel variant, and write the page."""

    fresh: Annotated[
        bool, Option("--fresh", help="Measure everything again; the default resumes the run.")
    ] = False
    live: Annotated[bool, Option("--live", help="Refuse to replay a recording (exit code 3).")] = (
        False
    )
    replay: Annotated[
        Path | None, Option("--replay", metavar="RUN", help="Replay this recording or run.")
    ] = None
    markdown_target: Markdown = None
    timeout: Annotated[
        float | None, Option("--timeout", metavar="S", min=0.1, help="Seconds one visit may take.")
    ] = None
    fail_on: RunFailOn = None
    budget_s: BudgetSeconds = None
    timeline: Annotated[
        bool, Option("--timeline", help="Then record finalists and baseline under nsys; no replay.")
    ] = False
    explain: Annotated[
        list[str] | None,
        Option(
            "--explain",
            metavar="CELL|PROBLEM|all",
            help="Explain these cells, in place of those of the answer; repeatable.",
        ),
    ] = None
    no_explain: Annotated[bool, Option("--no-explain", help="Explain no cells.")] = False
    no_report: NoReport = False
    open_page: OpenPage = False
    workers: Annotated[
        str | None,
        Option(
            "--workers",
            metavar="tcp://HOST:PORT|local:N",
            help="Measure on workers of this Dask scheduler, or on N GPUs of this host.",
        ),
    ] = None
    mixed: Annotated[
        bool,
        Option(
            "--mixed", help="With --workers: a run for each model and driver, not only the first."
        ),
    ] = False
    quiet: Quiet = False
    verbose: Verbose = False
    inquiry: Inquiry | None = None
    """What the machine was asked already; None: it is asked when the experiment is planned."""
    referee: Path | None = None
    """File of a candidate's functions, which the referee judges beside those of the spec."""
    preloading: Preloading | None = None
    """A process of the runner that was started already."""
    budget: Budget | None = None
    """What is left of `budget_s`, once the command has begun."""
    created: str = field(default_factory=_now)

    @property
    def explains(self) -> str | None:
        """Whether cells are explained, where a flag decides; else None."""
        return "true" if self.explain else "false" if self.no_explain else None


@dataclass(frozen=True, eq=False)
class WorkerRequest(DaskFlags):
    """Measure tasks of `run --workers` on the GPU here, by a Dask scheduler (docs/cluster.md)."""

    address: Annotated[
        str, Argument(metavar="ADDRESS", help="Address of the Dask scheduler: tcp://HOST:PORT.")
    ]
    device: Annotated[
        str | None, Option("--device", metavar="cuda:N|cpu", help="Default: the first GPU.")
    ] = None
    scratch: Annotated[
        Path | None,
        Option("--scratch", metavar="DIR", help="For runs under way; default: temporary."),
    ] = None
    host: Annotated[
        str | None,
        Option(
            "--host",
            metavar="ADDRESS",
            help="Listen on this address; default: the one that reaches the scheduler.",
        ),
    ] = None
    quiet: Quiet = False
    color: Color = "auto"


@dataclass(frozen=True, eq=False)
class BuildRequest:
    """Compile every variant and show registers, spills and shared memory; needs no GPU."""

    spec: Spec
    arch: Annotated[
        str | None, Option("--arch", metavar="sm_NN", help="Default: that of the GPU here.")
    ] = None
    only: Only = None
    settings: Set = None
    out: Out = DEFAULT_OUT
    json_target: Json = None
    quiet: Quiet = False
    color: Color = "auto"


@dataclass(frozen=True, eq=False)
class CheckRequest(ExperimentFlags):
    """Measure an experiment, or read a run, and print the answer in 4 kB, for programs."""

    target: Annotated[
        Path,
        Argument(
            metavar="FILE|RUN",
            help="An experiment (YAML, Python, or a Python file of functions), or a run as "
            "`report` takes it.",
        ),
    ]
    against: Annotated[
        str | None, Option("--against", metavar="NAME", help="Default: the baseline.")
    ] = None
    budget_s: BudgetSeconds = None
    only: Only = None
    blocks: Blocks = None
    fail_on: RunFailOn = None
    referee: Referee = None
    out: Out = DEFAULT_OUT
    json_target: Json = None


@dataclass(frozen=True, eq=False)
class ServeRequest:
    """Answer an agent by the Model Context Protocol on stdin and stdout (docs/check.md)."""

    root: Annotated[
        Path, Option("--root", metavar="DIR", help="Files outside of it are refused.")
    ] = Path()


@dataclass(frozen=True, eq=False)
class ReportRequest:
    """Write the page of a run again, from its raw files; needs no GPU."""

    run_folder: Run
    out: Annotated[
        Path,
        Option("--out", metavar="DIR", help="Where the page of a recording or read-only run goes."),
    ] = DEFAULT_OUT
    reports: Reports = DEFAULT_OUT
    json_target: Json = None
    markdown_target: Markdown = None
    open_page: OpenPage = False
    verbose: Verbose = False
    color: Color = "auto"


@dataclass(frozen=True, eq=False)
class ExplainRequest:
    """Explain the difference of two kernels, and what limits one, and where; needs no GPU."""

    run: Run
    variant: Annotated[
        str | None, Option("--variant", metavar="NAME", help="Default: the best.")
    ] = None
    against: Annotated[
        str | None, Option("--against", metavar="NAME", help="Default: the baseline.")
    ] = None
    problem: Annotated[
        str | None, Option("--problem", metavar="NAME", help="Default: the largest.")
    ] = None
    reports: Reports = DEFAULT_OUT
    json_target: Json = None

    @property
    def names_nothing(self) -> bool:
        """Whether the request names no cell, and so asks for the answer's pair."""
        return self.variant is self.against is self.problem is None


@dataclass(frozen=True, eq=False)
class CompareRequest(ExperimentFlags):
    """Compare runs of other days, commits, drivers or GPUs, cell by cell; needs no GPU.

    Or measure git revisions of an experiment side by side (docs/revisions.md).
    """

    runs: Annotated[
        list[str],
        Argument(
            metavar="RUN RUN…|REVISION… SPEC",
            help="Run folders, recordings, or names of experiments (their newest run; NAME~1 is "
            "the one before it). The older one first. Or git revisions and an experiment: HEAD~1 "
            "HEAD mine.py; one alone is compared with the files as they lie there.",
        ),
    ]
    only: Only = None
    baseline: Annotated[
        str | None,
        Option("--baseline", metavar="NAME", help="The variant that did not change."),
    ] = None
    blocks: Blocks = None
    fail_on: FailOn = None
    json_target: Json = None
    page: PageOut = None
    """None: under `reports`."""
    reports: Reports = DEFAULT_OUT
    no_report: NoReport = False
    quiet: Quiet = False


@dataclass(frozen=True, eq=False)
class BisectRequest(ExperimentFlags):
    """Find the commit that made a kernel slower: commits are measured side by side."""

    revisions: Annotated[
        str,
        Argument(
            metavar="GOOD..BAD",
            help="Git revisions: fast at GOOD, slow at BAD. Or what recorded runs differ by "
            "(driver, torch, nvcc, \u2026), or environments to measure in (NAME=PYTHON,\u2026).",
        ),
    ]
    spec: Spec
    cell: Annotated[
        str | None,
        Option(
            "--cell",
            metavar="K=V,…",
            help="The cell to follow, as for --only. Default: the one that changed most.",
        ),
    ] = None
    metric: Annotated[str, Option("--metric", metavar="NAME", help="Follow this metric.")] = (
        "duration_ns"
    )
    blocks: Blocks = None
    commits: Annotated[
        int, Option("--commits", metavar="N", min=3, max=65, help="Commits in one session.")
    ] = 10
    sessions: Annotated[int, Option("--sessions", metavar="N", min=1, help="Most sessions.")] = 16
    out: Out = DEFAULT_OUT
    json_target: Json = None
    quiet: Quiet = False


_OF_THE_COMMAND = ("fail_on", "markdown_target", "json_target")
"""Options of what a command prints about its runs, not of the runs."""


def run_request(request: ExperimentFlags, **changes: Any) -> RunRequest:
    """Run request of another command's experiment, with the fields that both requests have."""
    field_names = {field_names.name for field_names in fields(request)}.difference(_OF_THE_COMMAND)
    shared = {f.name: getattr(request, f.name) for f in fields(RunRequest) if f.name in field_names}
    return RunRequest(**{**shared, **changes})


@dataclass(frozen=True, eq=False)
class ImportRequest:
    """Read files of other tools that you have: tables and a page, or JSON."""

    files: Annotated[
        list[Path],
        Argument(
            metavar="FILE…",
            help="Files of ncu, nsys, torch.profiler, autotuners (docs/import.md), or folders.",
        ),
    ]
    json_target: Json = None
    page: PageOut = None
    """None: named after the first file, in the current folder."""
    compare: Annotated[
        bool,
        Option("--compare", help="Why the launches of the first of two files take longer."),
    ] = False
    limit_gib: Annotated[
        float,
        Option(
            "--limit-gib",
            metavar="N",
            min=0,
            help="Largest size of a packed file or a trace, unpacked.",
        ),
    ] = 1.0
    color: Color = "auto"

    @property
    def limit_bytes(self) -> int:
        """Largest size of an unpacked file or a trace, in bytes."""
        return int(min(self.limit_gib, 2.0**20) * 2**30)

    @property
    def only_json(self) -> bool:
        """Whether only JSON is requested."""
        return self.json_target == "-" and self.page is None


@dataclass(frozen=True, eq=False)
class CaptureRequest:
    """Run a Python program and make an experiment of the operators that take most of its time.

    A trace of torch.profiler or nsys in place of the program is ranked: what takes most of its
    time, and what of that a capture records. With -o, a trace of torch.profiler with shapes becomes
    an experiment of what can be made again from it.
    """

    program: Annotated[
        list[str],
        Argument(
            metavar="-- PROGRAM…|TRACE",
            help="python FILE or python -m MODULE, with its arguments; or a trace.",
        ),
    ]
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FOLDER", help="Where the experiment is written."),
    ] = None
    steps: Annotated[
        str,
        Option(
            "--steps",
            metavar="A:B",
            help="Record the steps A to B - 1, which end with those of the optimizer; a program "
            "without any is recorded whole.",
        ),
    ] = "4:6"
    values: Annotated[
        bool,
        Option("--values", help="Keep the values of the inputs, not only their statistics."),
    ] = False


@dataclass(frozen=True, eq=False)
class SimulateRequest:
    """Replay a search on recorded results (T1 and T4 files); needs no GPU."""

    space: Annotated[
        Path,
        Argument(metavar="SPACE.T1.json", help="Parameters, values and conditions of the space."),
    ]
    results: Annotated[
        Path,
        Argument(
            metavar="RESULTS_T4.json.gz",
            help="Recorded results of the space; a cache of kernel_tuner may be both files.",
        ),
    ]
    strategy: Annotated[
        str,
        Option("--strategy", metavar="NAME", help="portfolio, model, random, exhaustive."),
    ] = "portfolio"
    budget: Annotated[
        int, Option("--budget", metavar="N", min=1, help="Evaluations of each search.")
    ] = 120
    seed: Annotated[int, Option("--seed", metavar="N", min=0, help="The first seed.")] = 1
    seeds: Annotated[
        int, Option("--seeds", metavar="N", min=1, max=10_000, help="Number of searches.")
    ] = 1
    mean: Annotated[
        bool, Option("--mean", help="Mean of the recorded runs instead of their median.")
    ] = False
    json_target: Json = None
    color: Color = "auto"


ExportFormat = Literal["t1", "t4", "pytorch", "bencher", "openmetrics"]


@dataclass(frozen=True, eq=False)
class ExportRequest:
    """Write a run for other programs: tuners, PyTorch's dashboard, Bencher, Prometheus."""

    source: Annotated[
        Path,
        Argument(
            metavar="RUN|SPEC",
            help="A run, as `report` takes it; with --format t1 an experiment, whose space is "
            "written.",
        ),
    ]
    format: Annotated[
        ExportFormat,
        Option(
            "--format",
            help="t1: space of a tuning; t4: its results at a problem; pytorch: records of the "
            "benchmark database (v3), one in a line; bencher: Bencher Metric Format; openmetrics.",
        ),
    ]
    out: Annotated[
        Path,
        Option(
            "--out", "-o", metavar="FILE", help="The file to write, packed by .gz; - is stdout."
        ),
    ] = Path("-")
    problem: Problem = None
    settings: Set = None
    reports: Reports = DEFAULT_OUT


@dataclass(frozen=True, eq=False)
class DoctorRequest:
    """Check everything that a run needs; exit code 3 when something essential is missing."""

    json_target: Json = None
    color: Color = "auto"


@dataclass(frozen=True, eq=False)
class ListRequest:
    """List the runs and replays in the reports folder, and the recordings beside it."""

    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME…]",
            help="Only these: experiments, NAME~1, run folders, recordings. Default: all.",
        ),
    ] = None
    out: Out = DEFAULT_OUT
    json_target: Json = None
    color: Color = "auto"


@dataclass(frozen=True, eq=False)
class HistoryRequest:
    """Show the changes of each cell over all runs: since when, and what else changed."""

    experiment: Annotated[
        str | None,
        Argument(
            metavar="SPEC", help="An experiment, by its file or its name. Default: list them."
        ),
    ] = None
    metric: Annotated[
        str | None, Option("--metric", metavar="NAME", help="Default: the primary one.")
    ] = None
    machine: Annotated[
        str | None,
        Option(
            "--machine", metavar="WORDS", help="Of several, this one; default: the newest run's."
        ),
    ] = None
    imported: Annotated[
        list[Path] | None,
        Option(
            "--import",
            metavar="FILE",
            help="Add a recording, a run, or JSON records of PyTorch's benchmark v3; repeatable.",
        ),
    ] = None
    rebuild: Annotated[
        bool, Option("--rebuild", help="Read all run folders and the recordings here again.")
    ] = False
    json_target: Json = None
    page: PageOut = None
    """None: under `reports`."""
    reports: Reports = DEFAULT_OUT
    no_report: NoReport = False
    color: Color = "auto"

    @property
    def flags_of_experiment(self) -> tuple[str, ...]:
        """Given flags that are about the history of one experiment."""
        return given_flags(
            self,
            {
                "metric": "--metric",
                "machine": "--machine",
                "json_target": "--json",
                "page": "--out",
            },
        )


@dataclass(frozen=True, eq=False)
class GateRequest(ExperimentFlags):
    """Measure this commit against the merge base, side by side; exit code 5 if it is slower."""

    spec: Spec
    base: Annotated[
        str | None,
        Option("--base", metavar="REV", help="Default: the merge base with the target branch."),
    ] = None
    head: Annotated[
        str, Option("--head", metavar="REV", help="The judged revision; . is the working tree.")
    ] = "HEAD"
    fail_on: Annotated[
        str,
        Option(
            "--fail-on",
            metavar="regression[:PERCENT]",
            help=f"A cell {Verdict.SLOWER.word} by more than PERCENT, with its whole interval.",
        ),
    ] = "regression"
    comment: Annotated[
        str | None,
        Option(
            "--comment",
            metavar="github|gitlab",
            help="Put the answer into one comment of this CI job's request; the token is "
            "GITHUB_TOKEN or GITLAB_TOKEN of the environment.",
        ),
    ] = None
    budget_s: BudgetSeconds = None
    only: Only = None
    out: Out = DEFAULT_OUT
    markdown_target: Markdown = None
    quiet: Quiet = False


@dataclass(frozen=True, eq=False)
class RecordRequest:
    """Make a recording of a run: its raw numbers, without paths, names and tool reports."""

    run_folder: Run
    target: Annotated[Path, Argument(metavar="FILE", help="e.g. experiments/recordings/NAME.zip.")]
    reports: Reports = DEFAULT_OUT


@dataclass(frozen=True, eq=False)
class FiguresRequest:
    """Draw metrics of a run between its versions, for papers and slides; needs no GPU."""

    run_folder: Run
    out: Annotated[
        Path, Option("--out", "-o", metavar="DIR", help="Where the files are written.")
    ] = Path("figures")
    metrics: Annotated[
        list[str] | None,
        Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="Draw this metric; repeatable. Default: durations, cycles, L2 hits, registers.",
        ),
    ] = None
    format: Annotated[Literal["pdf", "png", "svg"], Option("--format", help="Kind of file.")] = (
        "pdf"
    )
    problem: Problem = None
    reports: Reports = DEFAULT_OUT


@dataclass(frozen=True, eq=False)
class GalleryRequest:
    """Write the page of every recording in a folder, and an index of them (`make gallery`)."""

    recordings: Annotated[
        Path, Argument(metavar="DIR", help="A folder of recordings, e.g. that of this project.")
    ]
    out: Annotated[Path, Argument(metavar="DIR", help="Where the pages are written.")]


@dataclass(frozen=True, eq=False)
class SchemaRequest:
    """Print the JSON Schema of the experiment file, for editors."""
