"""What needs Dask: `profiler worker`, and having workers measure an experiment."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from profiler.cluster.request import CPU, ClusterRequest
from profiler.commands.requests import WorkerRequest
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from profiler.cluster.giving import Team

__all__ = ["WorkerRequest", "measured_on_workers", "run_worker"]


def require_dask(what: str) -> None:
    """Raise EnvironmentUnusable where Dask is not installed."""
    if find_spec("distributed") is None:
        raise EnvironmentUnusable(
            f"{what} needs Dask, which is not installed.",
            remedy="pip install distributed; in a checkout, pip install -e '.[cluster]'",
        )


def run_worker(request: WorkerRequest) -> ExitCode:
    """Check the machine as `doctor` does, then measure until the scheduler is gone."""
    require_dask("profiler worker")
    from profiler.cluster.connection import check_address, say_if_plain, security_of, serve
    from profiler.cluster.on_worker import device_of, environment_here

    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    security = security_of((request.tls_ca, request.tls_cert, request.tls_key))
    check_address(request.address, secured=security is not None)
    cpu = request.device == CPU
    if request.device is not None and not cpu:
        _show_only(request.device)
    environment = environment_here(cpu=cpu)
    if not cpu and not _is_usable(request.color):
        return ExitCode.ENVIRONMENT
    say_if_plain(request.address, reporter)
    if request.host is not None and security is None:
        say_if_plain(f"tcp://{request.host}", reporter)
    words = f"Measuring on {device_of(environment)} for {request.address}."
    serve(
        request.address,
        environment,
        security=security,
        scratch=request.scratch,
        host=request.host,
        dashboard=not request.no_dashboard,
        on_taken=lambda: reporter.say(words),
    )
    reporter.say("The scheduler is gone.")
    return ExitCode.COMPLETE


def _show_only(device: str) -> None:
    """Let this process and what it starts see one GPU; raises UsageError where there is none."""
    from profiler.machine.environment import VISIBLE_VARIABLE, visible_gpus

    name, _, number = device.partition(":")
    gpus = visible_gpus()
    if name != "cuda" or not number.isdecimal() or int(number) >= len(gpus):
        raise UsageError(
            f"--device {device}: neither cpu nor one of the {len(gpus)} GPUs here, cuda:0 and on"
        )
    os.environ[VISIBLE_VARIABLE] = gpus[int(number)].uuid or number


def _is_usable(color: str) -> bool:
    """Whether nothing essential is missing here; else the table of `doctor` is printed."""
    from profiler.machine.console import make_console
    from profiler.machine.doctor import essential_missing, examine
    from profiler.render.console.lists import doctor_table

    checks = examine()
    if not essential_missing(checks):
        return True
    make_console(color).print(doctor_table(check.row for check in checks))
    return False


# ---- an experiment that workers measure ----------------------------------------------------------


def measured_on_workers(request: ClusterRequest, reporter: ProgressReporter) -> list[Team]:
    """Runs that workers measured, by device; raises EnvironmentUnusable where there is no Dask."""
    require_dask("--workers")
    from profiler.cluster.connection import connected
    from profiler.cluster.coordinator import measure_on_workers

    with connected(request, reporter) as client:
        return measure_on_workers(client, request, reporter)
