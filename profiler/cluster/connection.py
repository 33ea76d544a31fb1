"""Reaching workers: those of a scheduler, or one for each of several GPUs of this host."""

from __future__ import annotations

import ipaddress
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Nanny, Scheduler, Security, SpecCluster

from profiler.cluster import batch_task, problem_task
from profiler.cluster.device import device_of
from profiler.cluster.request import Certificates
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.machine.environment import VISIBLE_VARIABLE, probe_environment, visible_gpus
from profiler.model import Environment
from profiler.sessions.progress import ProgressReporter

LOCAL = "local:"
"""Beginning of `--workers local:N`: N GPUs of this host."""
PRELOADED = [problem_task.__name__, batch_task.__name__]
"""Modules of tasks, which a worker loads before it is given one."""
_LOOPBACK = "127.0.0.1"
_CONNECT_S = 30.0


@contextmanager
def connected(
    workers: str, certificates: Certificates, reporter: ProgressReporter, *, cpu: bool
) -> Iterator[Client]:
    """Client of the workers that `--workers` names; `cpu`: the experiment needs no GPU.

    Raises UsageError for an address that is none, EnvironmentUnusable where nobody answers there.
    """
    hush_dask(logging.CRITICAL)
    security = certificates.security()
    with ExitStack() as opened:
        at: str | SpecCluster = workers
        if workers.startswith(LOCAL):
            at = opened.enter_context(_local_cluster(workers, security, cpu=cpu))
        else:
            check_address(workers, secured=security is not None)
            say_if_plain(workers, reporter)
        try:
            client = opened.enter_context(Client(at, security=security, timeout=_CONNECT_S))
        except (OSError, TimeoutError, RuntimeError, TypeError) as error:
            raise EnvironmentUnusable(
                f"No scheduler answers at {workers}.",
                remedy="Start one with `dask scheduler`; a scheduler with TLS needs --tls-ca, "
                "--tls-cert and --tls-key.",
            ) from error
        if link := client.dashboard_link:
            reporter.say(f"Dashboard: {link}")
        yield client


def hush_dask(level: int) -> None:
    """Print of Dask's own messages only those of a level.

    Of a lost connection its client prints a traceback: the program says that in its own words.
    """
    for name in list(logging.root.manager.loggerDict):
        if name == "distributed" or name.startswith("distributed."):
            logging.getLogger(name).setLevel(level)
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)


def check_address(address: str, *, secured: bool) -> None:
    """Raise UsageError for an address that no scheduler can have."""
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname:
        raise UsageError(
            f"{address}: no address of a scheduler, which is tcp://HOST:PORT or tls://HOST:PORT; "
            "on this host, --workers local:N needs none"
        )
    if (parts.scheme == "tls") != secured:
        raise UsageError(
            f"{address}: tls:// goes with --tls-ca, --tls-cert and --tls-key, and these with tls://"
        )


def say_if_plain(address: str, reporter: ProgressReporter) -> None:
    """Warn that a connection over a network is neither encrypted nor asked who it is."""
    parts = urlsplit(address)
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname or ""):
        reporter.warn(
            f"{address} is neither encrypted nor authenticated: whoever reaches it can run code "
            "here and on the workers (docs/cluster.md has TLS)."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# ---- GPUs of this host ---------------------------------------------------------------------------


@contextmanager
def _local_cluster(workers: str, security: Security | None, *, cpu: bool) -> Iterator[SpecCluster]:
    """A scheduler on loopback, and a worker for each GPU, which is started again where it dies."""
    at = {
        "host": _LOOPBACK,
        "protocol": "tcp://" if security is None else "tls://",
        "security": security,
    }
    environments = _local_environments(workers, cpu=cpu)
    with tempfile.TemporaryDirectory(prefix="kernel-profiler-workers-") as scratch:
        nannies = {
            number: {"cls": Nanny, "options": {**at, **_nanny_options(environment, scratch)}}
            for number, environment in enumerate(environments)
        }
        scheduler = {**at, "port": 0, "dashboard_address": f"{_LOOPBACK}:0"}
        with SpecCluster(
            scheduler={"cls": Scheduler, "options": scheduler},
            workers=nannies,
            security=security,
            silence_logs=logging.CRITICAL,
        ) as cluster:
            yield cluster


def _nanny_options(environment: Environment, scratch: str) -> dict[str, Any]:
    only = {VISIBLE_VARIABLE: environment.gpu_uuid} if environment.gpu_uuid else {}
    options = worker_options(environment, scratch)
    return {**options, "env": only, "silence_logs": logging.CRITICAL}


def worker_options(environment: Environment, scratch: str) -> dict[str, Any]:
    """Options of the worker of a GPU, whoever starts it."""
    name = worker_name(environment)
    return {
        "nthreads": 1,
        "memory_limit": 0,  # none: it holds libraries and results, and sessions are processes
        "name": name,
        "resources": device_of(environment).resources_of(name),
        "local_directory": scratch,
        "preload": PRELOADED,
    }


def worker_name(environment: Environment) -> str:
    """Name of a worker at its scheduler, which takes no second one of a name: the GPU's UUID."""
    return environment.gpu_uuid or f"cpu-{os.uname().nodename}-{os.getpid()}"


def _local_environments(workers: str, *, cpu: bool) -> list[Environment]:
    """Environment of each GPU that `local:N` takes; raises UsageError for too many."""
    text = workers.removeprefix(LOCAL)
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise UsageError(f"--workers {workers}: N must be a number of GPUs")
    there = [None] if cpu else list(visible_gpus())
    if number > len(there):
        what = "the CPU counts as one" if cpu else f"this host shows {len(there)} GPUs"
        raise UsageError(f"--workers {workers}: {what}.")
    return [probe_environment(gpu=gpu) for gpu in there[:number]]
