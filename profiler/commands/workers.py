"""Commands that need Dask: `profiler worker`, and experiments measured by workers."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from profiler.commands.imports import import_ahead
from profiler.commands.requests import RunRequest, WorkerRequest
from profiler.commands.run import (
    PlannedExperiment,
    WrittenRun,
    checked_gate,
    gated_exit_code,
    plan_run,
    planned_for,
    print_results,
    terminal_reporter,
    warn_unready,
    write_run,
)
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.machine.requirements import Machine
from profiler.model import Environment, Outcome, Plan
from profiler.planning.space import Space
from profiler.run_folder.runs import require_folder
from profiler.sessions.execution import SecondsRecorder
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from profiler.findings.gates import Bound, Gate


def require_dask(feature: str) -> None:
    """Raise EnvironmentUnusable where Dask is not installed."""
    if find_spec("distributed") is None:
        raise EnvironmentUnusable(
            f"{feature} needs Dask, which is not installed.",
            remedy="pip install distributed; in a checkout, pip install -e '.[cluster]'",
        )


def run_worker(request: WorkerRequest) -> ExitCode:
    """Check the machine like `doctor`, then measure until the scheduler is gone."""
    require_dask("profiler worker")
    from profiler.cluster.connection import (
        CPU,
        check_address,
        check_host,
        security_of,
        serve,
        warn_if_unencrypted,
    )
    from profiler.cluster.on_worker import worker_environment

    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    security = security_of(request.tls)
    check_address(request.address, secured=security is not None)
    if request.scratch is not None:
        require_folder(request.scratch, "--scratch")
    if request.host is not None:
        check_host(request.host)
    cpu = request.device == CPU
    if request.device is not None and not cpu:
        _show_only(request.device)
    environment = worker_environment(cpu=cpu)
    if not cpu and not _is_usable(request.color):
        return ExitCode.ENVIRONMENT
    warn_if_unencrypted(request.address, reporter)
    if request.host is not None and security is None:
        warn_if_unencrypted(f"tcp://{request.host}", reporter)
    serve(
        request.address,
        environment,
        reporter,
        security=security,
        scratch=request.scratch,
        host=request.host,
        dashboard=not request.no_dashboard,
    )
    reporter.say("The scheduler is gone.")
    return ExitCode.COMPLETE


def _show_only(device: str) -> None:
    """Let this process and its children see one GPU; raises UsageError for an unknown GPU."""
    from profiler.machine.environment import VISIBLE_VARIABLE, visible_gpus

    name, _, number = device.partition(":")
    gpus = visible_gpus()
    if name != "cuda" or not number.isdecimal() or int(number) >= len(gpus):
        raise UsageError(
            f"--device {device}: neither cpu nor one of the {len(gpus)} GPUs here, cuda:0 and on"
        )
    os.environ[VISIBLE_VARIABLE] = gpus[int(number)].uuid or number


def _is_usable(color: str) -> bool:
    """Whether nothing essential is missing; else the table of `doctor` is printed."""
    from profiler.machine.console import make_console
    from profiler.machine.doctor import missing_essentials, run_checks
    from profiler.render.console.lists import doctor_table

    checks = run_checks()
    if not missing_essentials(checks):
        return True
    make_console(color).print(doctor_table(check.row for check in checks))
    return False


# ---- an experiment that workers measure ----------------------------------------------------------


def run_on_workers(request: RunRequest) -> ExitCode:
    """Worst exit code of the devices' runs; workers measure, and each answer is printed."""
    started = time.monotonic()
    gate, reporter = checked_gate(request), terminal_reporter(request)
    codes = []
    for run in written_runs_of_workers(request, reporter, gate):
        print_results(run, request, reporter)
        codes.append(gated_exit_code(run.exit_code, run.findings, gate, reporter))
    reporter.say(f"{time.monotonic() - started:.1f} s.")
    return max(codes)


def written_runs_of_workers(
    request: RunRequest, reporter: ProgressReporter, gate: Gate | Bound | None = None
) -> tuple[WrittenRun, ...]:
    """A written run of each device, measured by workers.

    Raises the first failure of a device where none of its problems was measured.
    """
    seconds = SecondsRecorder()
    planned = plan_run(request, gate, seconds)
    _require_for_workers(planned)
    require_dask("--workers")
    from profiler.cluster.connection import CPU, connected_client
    from profiler.cluster.coordinator import measure_on_workers
    from profiler.run_folder.load.assemble import assemble
    from profiler.sessions.measure import MeasureRequest

    template = MeasureRequest(
        loaded=planned.loaded,
        plan=planned.plan,
        space=planned.space,
        machine=Machine(Environment(), "", ncu=None),
        out=request.out.resolve(),
        fresh=request.fresh,
        created=request.created,
        seconds=seconds,
        timeline=request.timeline,
        explain=request.explain,
        meanwhile=partial(import_ahead, page=not request.no_report),
    )
    with connected_client(
        str(request.workers),
        reporter,
        tls=request.tls,
        cpu=planned.loaded.experiment.collect.device == CPU,
        dashboard=not request.no_dashboard,
    ) as client:
        teams = measure_on_workers(
            client,
            template,
            partial(_planned_on_worker, request, planned, reporter),
            reporter,
            mixed=request.mixed,
        )
    written_runs = []
    for team in teams:
        measured, failures = team.request, [*team.failures.values()]
        report = assemble(team.run, planned.loaded, measured.plan, reader=measured.reader)
        outcomes = {status.outcome for status in report.statuses.values()}
        if failures and outcomes <= {Outcome.NOT_MEASURED}:
            raise failures[0]
        run = write_run(request, report, team.run.path, reporter, measured.seconds)
        written_runs.append(replace(run, exit_code=ExitCode.ENVIRONMENT) if failures else run)
    return tuple(written_runs)


def _require_for_workers(planned: PlannedExperiment) -> None:
    """Raise UsageError for settings that workers cannot honour."""
    collect = planned.loaded.experiment.collect
    if collect.gpu_index is not None:
        raise UsageError(
            f"collect.device: {collect.device} is a GPU of one machine; workers have theirs.",
            remedy="Leave it out, and start the worker with --device.",
        )


def _planned_on_worker(
    request: RunRequest, planned: PlannedExperiment, reporter: ProgressReporter, machine: Machine
) -> tuple[Plan, Space]:
    """Plan for the machine of a worker."""
    on_worker = planned_for(request, planned, machine)
    warn_unready(on_worker, machine, reporter)
    return on_worker.plan, on_worker.space
