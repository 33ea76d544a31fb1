"""Connections to workers, and workers: of a scheduler, or for each of several GPUs of this host.

A process listens only on the address by which it reaches the others: Dask's own default is every
address of the host, where anyone who connects can run code.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask.config
from distributed import Client, Nanny, Scheduler, Security, SpecCluster, Worker
from distributed.comm.addressing import get_local_address_for, parse_address

from profiler.cluster import on_worker
from profiler.cluster.on_worker import device_of, resources_of
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.machine.environment import VISIBLE_VARIABLE, probe_environment, visible_gpus
from profiler.machine.signals import raise_if_signalled
from profiler.machine.temporary_folders import temporary_folder
from profiler.model import Environment
from profiler.sessions.progress import ProgressReporter

CPU = "cpu"
LOCAL = "local:"
"""Beginning of `--workers local:N`: N GPUs of this host."""
TlsFiles = tuple[Path | None, Path | None, Path | None]
"""Files in PEM: of the authority, the certificate and its key; all three or none."""
_LOOPBACK = "127.0.0.1"
_START_SCHEDULER = (
    "Start one with `dask scheduler`; a scheduler with TLS needs tls:// and --tls-ca, --tls-cert "
    "and --tls-key."
)
_CONNECT_S = 30.0
_SILENT_S = 5.0
"""Seconds after which a worker says that it waits for its scheduler."""
_LOOK_S = 1.0
"""Between two looks whether a signal came."""
_SELDOM: dict[str, Any] = {
    "distributed": {
        "worker": {"profile": {"enabled": False}},
        "admin": {
            "tick": {"interval": "200ms"},
            "system-monitor": {"gil": {"enabled": False}},
        },
    }
}
"""A worker of Dask wakes 150 times a second to see what Python does and if its loop is late. In
ours, sessions are processes of their own. Idle, it takes 0.7 % of a core, not 2.9 %."""


class _SchedulerWithoutHttp(Scheduler):
    def start_http_server(self, *_: object, **_options: object) -> None:
        """Listen for nothing but Dask's own protocol."""


class _WorkerWithoutHttp(Worker):
    def start_http_server(self, *_: object, **_options: object) -> None:
        """Listen for nothing but Dask's own protocol."""


@contextmanager
def connected_client(
    workers: str, reporter: ProgressReporter, *, tls: TlsFiles, cpu: bool, dashboard: bool
) -> Iterator[Client]:
    """Client of the workers that `--workers` names.

    `workers`: address of a scheduler of Dask, or `local:N`. For workers
    of this host, `cpu`: whether they measure on the processor; `dashboard`: whether Dask's HTTP
    server runs.

    Raises UsageError for a wrong address, EnvironmentUnusable where no scheduler answers there.
    """
    _quiet_dask()
    security = security_of(tls)
    with ExitStack() as opened:
        at: str | SpecCluster = workers
        if workers.startswith(LOCAL):
            environments = _local_environments(workers, cpu=cpu)
            at = opened.enter_context(_local_cluster(environments, security, dashboard=dashboard))
        else:
            check_address(workers, secured=security is not None)
            warn_if_unencrypted(workers, reporter)
        try:
            client = opened.enter_context(Client(at, security=security, timeout=_CONNECT_S))
        except (OSError, RuntimeError, TypeError) as error:
            raise EnvironmentUnusable(
                f"No scheduler answers at {workers}.", remedy=_START_SCHEDULER
            ) from error
        if link := client.dashboard_link:
            reporter.say(f"Dashboard: {link}")
        yield client


def _quiet_dask() -> None:
    """Print none of Dask's own messages, and make it wake seldom beside measurements.

    Its messages are tracebacks: the program prints its own. The user's configuration of it stays.
    """
    dask.config.update_defaults(_SELDOM)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):  # Tornado runs its callbacks
            logging.getLogger(name).setLevel(logging.CRITICAL)


def security_of(tls: TlsFiles) -> Security | None:
    """Security of a connection; None without TLS.

    Raises UsageError where a file is missing, or is no certificate or key of it.
    """
    files = [file for file in tls if file is not None]
    if not files:
        return None
    if len(files) < len(tls):
        raise UsageError("--tls-ca, --tls-cert and --tls-key: all three or none.")
    for file in files:
        if not file.is_file():
            raise UsageError(f"{file}: there is no such file")
    ca, cert, key = map(str, files)
    roles = ("client", "worker", "scheduler")
    security = Security(
        require_encryption=True,
        tls_ca_file=ca,
        **{f"tls_{role}_cert": cert for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )
    try:
        security.get_connection_args("client")
    except OSError as error:  # of ssl
        raise UsageError(
            f"--tls-ca, --tls-cert and --tls-key: {error}",
            remedy="Give the authority, a certificate and its key in PEM (docs/cluster.md).",
        ) from error
    return security


def check_address(address: str, *, secured: bool) -> None:
    """Raise UsageError for an address that is no scheduler's."""
    try:
        parts = urlsplit(address)
        is_one = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port is not None
    except ValueError:  # no port, or no address in brackets
        is_one = False
    if not is_one:
        raise UsageError(
            f"{address}: no address of a scheduler, which is tcp://HOST:PORT or tls://HOST:PORT; "
            "on this host, --workers local:N needs none"
        )
    if (parts.scheme == "tls") != secured:
        raise UsageError(
            f"{address}: tls:// goes with --tls-ca, --tls-cert and --tls-key, and these with tls://"
        )


def check_host(host: str) -> None:
    """Raise UsageError for an address on which this host cannot listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), 0), family=family).close()
    except OSError as error:
        raise UsageError(f"--host {host}: this host has no such address") from error


def warn_if_unencrypted(address: str, reporter: ProgressReporter) -> None:
    """Warn that a connection over a network is neither encrypted nor authenticated."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    with suppress(ValueError):
        host = "localhost" if ipaddress.ip_address(host).is_loopback else host
    if parts.scheme == "tcp" and host != "localhost":
        reporter.warn(
            f"{address} is neither encrypted nor authenticated: whoever reaches it can run code "
            "here and on the workers (docs/cluster.md has TLS)."
        )


def local_address(address: str) -> str:
    """IP address by which this host reaches a scheduler, which may be loopback.

    As it stands in a URL. Raises OSError where the name of the scheduler is not known.
    """
    _, host = parse_address(get_local_address_for(address))
    return str(host)


# ---- a worker ------------------------------------------------------------------------------------


def serve(  # noqa: PLR0913 - all but the first three by keyword
    address: str,
    environment: Environment,
    reporter: ProgressReporter,
    *,
    security: Security | None,
    scratch: Path | None,
    host: str | None,
    dashboard: bool,
) -> None:
    """Run tasks of a scheduler, which may come later, until it is gone or this process is ended.

    `scratch`: folder for runs under way and libraries; None: a temporary one. `host`: address to
    listen on; None: the one by which the scheduler is reached.
    """
    _quiet_dask()

    async def work(folder: str) -> None:
        options = worker_options(environment, folder)
        kind = Worker if dashboard else _WorkerWithoutHttp
        at = host or local_address(address)
        waiting_line = f"No scheduler answers at {address}; waiting for one."
        waiting = asyncio.get_running_loop().call_later(_SILENT_S, reporter.say, waiting_line)
        async with kind(address, security=security, host=at, **options) as worker:
            waiting.cancel()
            reporter.say(f"Measuring on {device_of(environment)} for {address}.")
            finished = asyncio.create_task(worker.finished())
            while not finished.done():
                await asyncio.wait([finished], timeout=_LOOK_S)
                raise_if_signalled()

    with temporary_folder() if scratch is None else nullcontext(scratch) as folder:
        try:
            asyncio.run(work(str(folder)))
        except (OSError, RuntimeError) as error:
            raise EnvironmentUnusable(
                f"{address}: no scheduler takes this worker: {error.__cause__ or error}",
                remedy=f"{_START_SCHEDULER} A GPU can have one worker only.",
            ) from error


def worker_options(environment: Environment, scratch: str) -> dict[str, Any]:
    """Options of the worker of a GPU, started by Dask or by a command.

    Its name is the UUID of the GPU: a scheduler takes no second worker of a name.
    """
    name = environment.gpu_uuid or f"cpu-{os.uname().nodename}-{os.getpid()}"
    return {
        "nthreads": 1,
        "memory_limit": 0,  # none: it holds libraries and results, and sessions are processes
        "name": name,
        "resources": resources_of(device_of(environment)),
        "local_directory": scratch,
        "preload": [on_worker.__name__],
        "silence_logs": logging.CRITICAL,
    }


# ---- GPUs of this host ---------------------------------------------------------------------------


@contextmanager
def _local_cluster(
    environments: Sequence[Environment], security: Security | None, *, dashboard: bool
) -> Iterator[SpecCluster]:
    """A scheduler on loopback with a worker for each GPU; a worker that dies is restarted."""
    at = {
        "host": _LOOPBACK,
        "protocol": "tcp://" if security is None else "tls://",
        "security": security,
    }
    kind = Worker if dashboard else _WorkerWithoutHttp
    with temporary_folder() as scratch:
        options = [_nanny_options(environment, str(scratch)) for environment in environments]
        nannies = {
            number: {"cls": Nanny, "options": {**at, **gpu_options, "worker_class": kind}}
            for number, gpu_options in enumerate(options)
        }
        scheduler = {
            "cls": Scheduler if dashboard else _SchedulerWithoutHttp,
            "options": {**at, "port": 0, "dashboard_address": f"{_LOOPBACK}:0"},
        }
        quiet = logging.CRITICAL
        with (
            # Else it sets OMP_NUM_THREADS=1 and others, here and for the sessions of its workers.
            dask.config.set({"distributed.nanny.pre-spawn-environ": {}}),
            SpecCluster(nannies, scheduler, security=security, silence_logs=quiet) as cluster,
        ):
            yield cluster


def _nanny_options(environment: Environment, scratch: str) -> dict[str, Any]:
    only = {VISIBLE_VARIABLE: environment.gpu_uuid} if environment.gpu_uuid else {}
    return {**worker_options(environment, scratch), "env": only}


def _local_environments(workers: str, *, cpu: bool) -> list[Environment]:
    """Environment of each GPU that `local:N` takes; raises UsageError for too many."""
    text = workers.removeprefix(LOCAL)
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise UsageError(f"--workers {workers}: N must be a number of GPUs")
    gpus = [None] if cpu else list(visible_gpus())
    if number > len(gpus):
        limit_text = "the CPU counts as one" if cpu else f"this host shows {len(gpus)} GPUs"
        raise UsageError(f"--workers {workers}: {limit_text}.")
    return [probe_environment(gpu=gpu) for gpu in gpus[:number]]
