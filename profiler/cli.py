"""The command line: flags in, exit code out. What a command does stands in the modules it calls.

Heavy imports happen inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import atexit
import difflib
import errno
import gc
import os
import shlex
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from profiler.commands.streams import prepare_streams
from profiler.errors import (
    EnvironmentUnusable,
    ExitCode,
    Interrupted,
    ProfilerError,
    UsageError,
)
from profiler.machine.signals import heed_signals, received_signal, was_signalled
from profiler.outside_text import safe

_UsageError: Any = typer.BadParameter.__mro__[1]
"""That of click, which typer brings with it under another name in newer versions."""


class Commands(TyperGroup):
    """Command group that handles interrupts before typer makes exit code 1 of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments before the name of a command."""
        with _safe_usage_errors():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and write out what it printed, however it ends."""
        try:
            try:
                with _safe_usage_errors():
                    return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            raise Interrupted("Interrupted.") from None
        except BrokenPipeError:
            # The reader of our output left (`| head`): nothing is wrong, and nothing can be said.
            _discard_output()
            sys.exit(int(ExitCode.COMPLETE))


@contextmanager
def _safe_usage_errors() -> Iterator[None]:
    """Make the arguments that click's errors quote safe to print."""
    try:
        yield
    except _UsageError as error:
        error.message = safe(error.message)
        raise


def _discard_output() -> None:
    """Drop what stdout still holds: Python would try to write it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class FigureFormat(StrEnum):
    """Files that `figures` writes."""

    PDF = "pdf"
    PNG = "png"
    SVG = "svg"


app = typer.Typer(
    cls=Commands,
    name="profiler",
    help="Which of my GPU kernel versions is best, by how much, is it real, and why.",
    epilog="`python -m profiler SPEC` is short for `python -m profiler run SPEC`. "
    "Exit codes: 0 complete, 1 internal error, 2 bad spec or usage, 3 environment unusable, "
    "4 some cells failed, 5 a --fail-on gate tripped, 130 interrupted (128 + N by signal N).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Spec = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC", help="The experiment: a YAML file, or Python with a profiler.Experiment."
    ),
]
Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run folder, a zip archive of one such as a recording, or the name of an experiment "
        "(its newest run, else its recording; NAME~1 is the run before).",
    ),
]
Reports = Annotated[
    Path, typer.Option("--reports", metavar="DIR", help="Where runs are looked for by name.")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs are written.")]
Json = Annotated[
    str | None, typer.Option("--json", metavar="PATH|-", help="Also write JSON; - is stdout.")
]
Markdown = Annotated[
    str | None,
    typer.Option(
        "--markdown",
        metavar="PATH|-",
        help="Also write answer and main table for a pull request; - is stdout.",
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        "--only", metavar="K=V,…", help="Only the cells that match; a|b for alternatives."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a field of the spec; repeatable."),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="NAME", help="Compare with this variant.")
]
Blocks = Annotated[
    int | None, typer.Option("--blocks", metavar="N", min=1, help="Timing blocks; collect.blocks.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="S", min=0.1, help="Seconds one visit may take."),
]
FailOn = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="regression[:PERCENT]",
        help="Exit code 5 where a cell is SLOWER by more than PERCENT (default 0).",
    ),
]
Color = Annotated[
    str,
    typer.Option("--color", metavar="auto|always|never", help="Colour on the console."),
]
Timeline = Annotated[
    bool,
    typer.Option("--timeline", help="Then record finalists and baseline under nsys; no replay."),
]
Explain = Annotated[
    list[str] | None,
    typer.Option(
        "--explain",
        metavar="CELL|PROBLEM|all",
        help="Count all that tells why of these cells, in place of those that the answer is about; "
        "again for more.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option("--device", metavar="cuda:N|cpu", help="Where to measure; collect.device."),
]
Timer = Annotated[
    bool,
    typer.Option("--timer", help="Judge by CUDA events, without ncu; collect.collectors=timer."),
]
Fast = Annotated[
    bool,
    typer.Option(
        "--fast",
        help="Time and count by CUPTI in one process, without ncu; collect.collectors=cupti.",
    ),
]
NoExplain = Annotated[bool, typer.Option("--no-explain", help="Count nothing that tells why.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="Do not write the page.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only results.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print every table and notice; say what is started.")
]

TlsCa = Annotated[
    Path | None, typer.Option("--tls-ca", metavar="PEM", help="TLS: who signed the certificates.")
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="PEM", help="TLS: certificate of this side.")
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="PEM", help="TLS: private key of this side.")
]

DEFAULT_OUT = Path("reports")


def _overrides(
    settings: list[str] | None,
    *,
    blocks: int | None,
    baseline: str | None,
    timeout: float | None,
    explain: bool = True,
    timer: bool = False,
    fast: bool = False,
    device: str | None = None,
) -> tuple[str, ...]:
    """`key=value` texts of --set, and of the flags that are short for one.

    Raises UsageError for two of them that say different things.
    """
    if timer and fast:
        raise UsageError(
            "--timer and --fast name different collectors.", remedy="Give one of them."
        )
    short_forms = {
        "collect.blocks": blocks,
        "baseline": baseline,
        "collect.time_limit_s": timeout,
        "collect.explain": None if explain else "false",
        "collect.collectors": "timer" if timer else "cupti" if fast else None,
        "collect.device": device,
    }
    flags = (f"{key}={value}" for key, value in short_forms.items() if value is not None)
    return (*(settings or ()), *flags)


def _print_version(asked: bool) -> None:
    if asked:
        from profiler import __version__

        sys.stdout.write(f"profiler {__version__}\n")
        raise typer.Exit


@app.callback()
def before_commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and end."
        ),
    ] = False,
) -> None:
    """Which of my GPU kernel versions is best, by how much, is it real, and why."""
    del version  # its callback did what it asks for


@app.command()
def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="python, triton, cuda or command.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the folder and the experiment.")],
    color: Color = "auto",
) -> None:
    """Write a folder with an experiment that works, with comments, to be edited."""
    from profiler.commands.new import NewRequest, make_new

    raise typer.Exit(make_new(NewRequest(kind=kind, name=name, folder=Path(), color=color)))


@app.command()
def run(
    spec: Spec,
    only: Only = None,
    blocks: Blocks = None,
    set_: Set = None,
    baseline: Baseline = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure everything again; the default is to go on.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Refuse to replay a recording (exit code 3).")
    ] = False,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="RUN", help="Replay this recording or run.")
    ] = None,
    out: Out = DEFAULT_OUT,
    json_: Json = None,
    markdown: Markdown = None,
    timeout: Timeout = None,
    fail_on: FailOn = None,
    timer: Timer = False,
    fast: Fast = False,
    device: Device = None,
    timeline: Timeline = False,
    explain: Explain = None,
    no_explain: NoExplain = False,
    no_report: NoReport = False,
    workers: Annotated[
        str | None,
        typer.Option(
            "--workers",
            metavar="tcp://HOST:PORT|local:N",
            help="Measure on workers of this Dask scheduler, or on N GPUs of this host.",
        ),
    ] = None,
    mixed: Annotated[
        bool,
        typer.Option(
            "--mixed", help="With --workers: a run for each model and driver, not only the first."
        ),
    ] = False,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    color: Color = "auto",
) -> None:
    """Build, check and measure every kernel variant, and write the page."""
    from profiler.commands.ahead import ask_ahead, torch_ahead

    inquiry = ask_ahead(spec) if replay is None and workers is None else None
    with torch_ahead(inquiry if fast or timer else None, live=live) as preloading:
        from profiler.commands.run import RunRequest, run_command
        from profiler.commands.workers import Certificates

        request = RunRequest(
            spec=spec,
            out=out,
            overrides=_overrides(
                set_,
                blocks=blocks,
                baseline=baseline,
                timeout=timeout,
                explain=not no_explain,
                timer=timer,
                fast=fast,
                device=device,
            ),
            only=only,
            fresh=fresh,
            live=live,
            replay=replay,
            json_target=json_,
            markdown_target=markdown,
            page=not no_report,
            fail_on=fail_on,
            timeline=timeline,
            explain=tuple(explain) if explain else None,
            workers=workers,
            mixed=mixed,
            certificates=Certificates(tls_ca, tls_cert, tls_key),
            quiet=quiet,
            verbose=verbose,
            color=color,
            inquiry=inquiry,
            preloading=preloading,
        )
        raise typer.Exit(run_command(request))


@app.command()
def worker(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="Of the Dask scheduler: tcp://HOST:PORT.")
    ],
    device: Annotated[
        str | None, typer.Option("--device", metavar="cuda:N|cpu", help="Default: the first GPU.")
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option("--scratch", metavar="DIR", help="For runs under way; default: temporary."),
    ] = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    quiet: Quiet = False,
    color: Color = "auto",
) -> None:
    """Measure on the GPU here what `run --workers` gives to a Dask scheduler (docs/cluster.md)."""
    from profiler.commands.workers import Certificates, WorkerRequest, run_worker

    request = WorkerRequest(
        address=address,
        device=device,
        scratch=scratch,
        certificates=Certificates(tls_ca, tls_cert, tls_key),
        quiet=quiet,
        color=color,
    )
    raise typer.Exit(run_worker(request))


@app.command()
def plan(
    spec: Spec,
    only: Only = None,
    blocks: Blocks = None,
    set_: Set = None,
    baseline: Baseline = None,
    timer: Timer = False,
    fast: Fast = False,
    device: Device = None,
    out: Out = DEFAULT_OUT,
    json_: Json = None,
    color: Color = "auto",
) -> None:
    """Show the cells, what is excluded and why, and the sessions; needs no GPU."""
    from profiler.commands.plan import PlanRequest, show_plan

    request = PlanRequest(
        spec=spec,
        out=out,
        overrides=_overrides(
            set_,
            blocks=blocks,
            baseline=baseline,
            timeout=None,
            timer=timer,
            fast=fast,
            device=device,
        ),
        only=only,
        json_target=json_,
        color=color,
    )
    raise typer.Exit(show_plan(request))


@app.command()
def build(
    spec: Spec,
    arch: Annotated[
        str | None, typer.Option("--arch", metavar="sm_NN", help="Default: that of the GPU here.")
    ] = None,
    only: Only = None,
    set_: Set = None,
    out: Out = DEFAULT_OUT,
    json_: Json = None,
    quiet: Quiet = False,
    color: Color = "auto",
) -> None:
    """Compile every variant and show registers, spills and shared memory; needs no GPU."""
    from profiler.commands.build import BuildRequest, show_build

    request = BuildRequest(
        spec=spec,
        out=out,
        overrides=tuple(set_ or ()),
        only=only,
        arch=arch,
        json_target=json_,
        quiet=quiet,
        color=color,
    )
    raise typer.Exit(show_build(request))


@app.command()
def report(
    run_folder: Run,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Where the page of a recording or read-only run goes."
        ),
    ] = DEFAULT_OUT,
    reports: Reports = DEFAULT_OUT,
    json_: Json = None,
    markdown: Markdown = None,
    verbose: Verbose = False,
    color: Color = "auto",
) -> None:
    """Write the page of a run again, from its raw files; needs no GPU."""
    from profiler.commands.report import ReportRequest, rebuild_report

    request = ReportRequest(
        run_folder=run_folder,
        reports=reports,
        out=out,
        json_target=json_,
        markdown_target=markdown,
        verbose=verbose,
        color=color,
    )
    raise typer.Exit(rebuild_report(request))


@app.command()
def explain(
    run_folder: Run,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="Default: the best.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="NAME", help="Default: the baseline.")
    ] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="NAME", help="Default: the largest.")
    ] = None,
    reports: Reports = DEFAULT_OUT,
    json_: Json = None,
) -> None:
    """Tell why: what two kernels differ by, what limits one, and where; needs no GPU."""
    from profiler.commands.explain import ExplainRequest
    from profiler.commands.explain import explain as explain_run

    request = ExplainRequest(
        run=run_folder,
        reports=reports,
        variant=variant,
        against=against,
        problem=problem,
        json_target=json_,
    )
    raise typer.Exit(explain_run(request))


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN…",
            help="Run folders, recordings, or names of experiments (their newest run; NAME~1 is "
            "the one before it). The older one first.",
        ),
    ],
    only: Only = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="NAME", help="The variant that did not change."),
    ] = None,
    fail_on: FailOn = None,
    json_: Json = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE", help="Where the page is written.")
    ] = None,
    reports: Reports = DEFAULT_OUT,
    no_report: NoReport = False,
    color: Color = "auto",
) -> None:
    """Compare runs of other days, commits, drivers or GPUs, cell by cell; needs no GPU."""
    from profiler.commands.compare import CompareRequest, show_comparison

    request = CompareRequest(
        runs=tuple(runs),
        reports=reports,
        only=only,
        baseline=baseline,
        fail_on=fail_on,
        json_target=json_,
        page=out,
        write_page=not no_report,
        color=color,
    )
    raise typer.Exit(show_comparison(request))


@app.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="CSV or reports of ncu (.ncu-rep), timelines of nsys (.sqlite, .nsys-rep) or "
            "torch.profiler (.json), or logs of inductor's autotuner.",
        ),
    ],
    json_: Json = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE", help="Where the page is written.")
    ] = None,
    limit_gib: Annotated[
        float,
        typer.Option(
            "--limit-gib", metavar="N", min=0, help="Most that a packed file or a trace may hold."
        ),
    ] = 1.0,
    color: Color = "auto",
) -> None:
    """Read a CSV of ncu, a timeline or an inductor log that you have: table and page, or JSON."""
    from profiler.commands.importing import ImportRequest, import_files

    request = ImportRequest(
        files=tuple(files),
        json_target=json_,
        page=out,
        limit_bytes=int(min(limit_gib, 2.0**20) * 2**30),
        color=color,
    )
    raise typer.Exit(import_files(request))


@app.command()
def simulate(
    space: Annotated[
        Path, typer.Argument(metavar="SPACE.T1.json", help="Parameters, values and conditions.")
    ],
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS_T4.json.gz", help="What was measured of them.")
    ],
    strategy: Annotated[
        str,
        typer.Option("--strategy", metavar="NAME", help="portfolio, model, random, exhaustive."),
    ] = "portfolio",
    budget: Annotated[
        int, typer.Option("--budget", metavar="N", min=1, help="Evaluations of each search.")
    ] = 120,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="The first seed.")] = 1,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=10_000, help="How many searches.")
    ] = 1,
    mean: Annotated[
        bool, typer.Option("--mean", help="Mean of the recorded runs instead of their median.")
    ] = False,
    json_: Json = None,
    color: Color = "auto",
) -> None:
    """Replay a search on recorded results (T1 and T4 files); needs no GPU."""
    from profiler.commands.simulate import SimulateRequest
    from profiler.commands.simulate import simulate as run_simulation

    request = SimulateRequest(
        space=space,
        results=results,
        strategy=strategy,
        budget=budget,
        seed=seed,
        seeds=seeds,
        mean=mean,
        json_target=json_,
        color=color,
    )
    raise typer.Exit(run_simulation(request))


@app.command("export-space")
def export_space(
    spec: Spec,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="X.T1.json", help="The file to write.")
    ],
    set_: Set = None,
) -> None:
    """Write the variants of an experiment as a search space (T1); needs no GPU."""
    from profiler.commands.exporting import ExportSpaceRequest, write_space

    raise typer.Exit(
        write_space(ExportSpaceRequest(spec=spec, out=out, overrides=tuple(set_ or ())))
    )


@app.command("export-results")
def export_results(
    run_folder: Run,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="Y_T4.json.gz", help="The file to write.")
    ],
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="NAME", help="Of several problems, this one.")
    ] = None,
    reports: Reports = DEFAULT_OUT,
) -> None:
    """Write what a run measured at a problem as results of a tuning (T4)."""
    from profiler.commands.exporting import ExportResultsRequest, write_run_results

    request = ExportResultsRequest(run_folder=run_folder, out=out, problem=problem, reports=reports)
    raise typer.Exit(write_run_results(request))


@app.command()
def doctor(json_: Json = None, color: Color = "auto") -> None:
    """Check everything that a run needs; exit code 3 when something essential is missing."""
    from profiler.commands.doctor import DoctorRequest, show_doctor

    raise typer.Exit(show_doctor(DoctorRequest(json_target=json_, color=color)))


@app.command("list")
def list_(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME…]",
            help="Only these: experiments, NAME~1, run folders, recordings. Default: all.",
        ),
    ] = None,
    out: Out = DEFAULT_OUT,
    json_: Json = None,
    color: Color = "auto",
) -> None:
    """List the runs and replays that are in the reports folder, and the recordings beside it."""
    from profiler.commands.list_runs import ListRequest, list_runs

    request = ListRequest(names=tuple(names or ()), out=out, json_target=json_, color=color)
    raise typer.Exit(list_runs(request))


@app.command()
def record(
    run_folder: Run,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="e.g. experiments/recordings/NAME.zip.")
    ],
    reports: Reports = DEFAULT_OUT,
) -> None:
    """Make a recording of a run: its raw numbers, without paths, names and tool reports."""
    from profiler.commands.record import RecordRequest, make_recording

    request = RecordRequest(run_folder=run_folder, target=target, reports=reports)
    raise typer.Exit(make_recording(request))


@app.command()
def figures(
    run_folder: Run,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files are written.")
    ] = Path("figures"),
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="Draw this metric; repeatable. Default: durations, cycles, L2 hits, registers.",
        ),
    ] = None,
    format_: Annotated[
        FigureFormat, typer.Option("--format", help="What kind of file.")
    ] = FigureFormat.PDF,
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="NAME", help="Of several problems, this one.")
    ] = None,
    reports: Reports = DEFAULT_OUT,
) -> None:
    """Draw metrics of a run between its versions, for papers and slides; needs no GPU."""
    from profiler.commands.exporting import FiguresRequest, write_figures

    request = FiguresRequest(
        run_folder=run_folder,
        out=out,
        format=format_.value,
        metrics=tuple(metric or ()),
        problem=problem,
        reports=reports,
    )
    raise typer.Exit(write_figures(request))


@app.command(hidden=True)
def gallery(
    recordings: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder of recordings, e.g. that of this project."),
    ],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where the pages are written.")],
) -> None:
    """Write the page of every recording in a folder, and an index of them (`make gallery`)."""
    from profiler.commands.gallery import GalleryRequest, make_gallery

    raise typer.Exit(make_gallery(GalleryRequest(recordings=recordings, out=out)))


@app.command()
def schema() -> None:
    """Print the JSON Schema of the experiment file, for editors."""
    from profiler.commands.schema import show_schema

    raise typer.Exit(show_schema())


_SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a program."""
_FULL_OR_CLOSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
"""What a disk says that has no room for us."""


def _command_names() -> set[str]:
    named = [(command.name, command.callback) for command in app.registered_commands]
    return {name or callback.__name__ for name, callback in named if callback is not None}


def _is_spec(argument: str) -> bool:
    return not argument.startswith("-") and argument not in _command_names()


def _refuse_mistyped_command(argument: str) -> None:
    """Raise UsageError for a word that is like a command and is no file."""
    close = difflib.get_close_matches(argument, _command_names(), n=1)
    if close and Path(argument).suffix == "" and not Path(argument).exists():
        raise UsageError(
            f"{argument}: there is no such command or file; did you mean '{close[0]}'?"
        )


def _same_command(argv: list[str]) -> str:
    """Command line that resumes this run: the same one without --fresh."""
    program = Path(argv[0])
    program_words = (
        ["python", "-m", "profiler"] if program.name == "__main__.py" else [program.name]
    )
    return shlex.join([*program_words, *(word for word in argv[1:] if word != "--fresh")])


def _fail(error: ProfilerError, code: int | None = None) -> NoReturn:
    with suppress(OSError):  # a terminal that was closed takes no words
        sys.stderr.write(f"profiler: {safe(str(error))}\n")
        sys.stderr.flush()
    sys.exit(int(error.exit_code) if code is None else code)


def _interrupted(message: str) -> NoReturn:
    """End as a program does that a signal ended: 130 is that of Ctrl-C."""
    error = Interrupted(message, remedy=f"Go on with: {_same_command(sys.argv)}")
    received = received_signal()
    if received is None:
        _fail(error)
    error.message = f"{received.name}: {message}"
    _fail(error, _SIGNALLED + received)


def _own_fault() -> NoReturn:
    traceback.print_exc()
    sys.stderr.write("profiler: internal error; please report the lines above.\n")
    sys.exit(int(ExitCode.OWN_FAULT))


_COLLECT_AFTER = 1_000_000
"""Objects between two looks for garbage: a process that ends after one command makes little. With
Python's own 700 the looks take a tenth of the time of a large report, with 100,000 a fiftieth."""


@cache
def command_group() -> Any:
    """All commands with their arguments and flags, as click has them."""
    return get_command(app)


def main() -> None:
    """Entry point: `SPEC` alone means `run SPEC`; every known error becomes its exit code."""
    gc.set_threshold(_COLLECT_AFTER)
    # What is left at the end goes with the process: looking through it takes a quarter of a second.
    atexit.register(gc.freeze)
    prepare_streams()
    heed_signals()
    arguments = sys.argv[1:]
    try:
        if arguments and _is_spec(arguments[0]):
            _refuse_mistyped_command(arguments[0])
            arguments = ["run", *arguments]
        command_group()(args=arguments, prog_name="profiler")
    except Interrupted as error:
        _interrupted(error.message)
    except KeyboardInterrupt:  # before a command began
        _interrupted("Interrupted.")
    except ProfilerError as error:
        _fail(error)
    except OSError as error:
        if received_signal() is not None:  # with its terminal, our streams are gone
            _interrupted("Interrupted.")
        if error.errno not in _FULL_OR_CLOSED:
            _own_fault()
        _discard_output()
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        remedy = "Change its permissions" if refused else "Make room"
        _fail(
            EnvironmentUnusable(
                f"{error.filename or 'stdout'}: {error.strerror}.",
                remedy=f"{remedy}, or write to another folder.",
            )
        )
    except Exception:
        if was_signalled():  # Python makes another error of one that comes while a class is made
            _interrupted("Interrupted.")
        _own_fault()
