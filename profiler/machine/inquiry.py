"""What a machine takes its time to say, asked all at once: NVML, ncu, nvcc and git.

A run asks before it imports what reads and plans an experiment, which takes as long as the answers.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from profiler.collect.ncu import find_ncu, ncu_version
from profiler.errors import EnvironmentUnusable
from profiler.machine.compilers import find_nvcc
from profiler.machine.environment import Gpu, HostFacts, find_gpu, host_facts


@dataclass(frozen=True)
class Inquiry:
    """Answers to come; each raises what stood in its way when it is taken."""

    gpu: Future[Gpu | None]
    """The GPU that a CUDA program would use first."""
    ncu: Future[tuple[Path, str]]
    """Path and version of ncu."""
    host: Future[HostFacts]


def inquire(source: Path) -> Inquiry:
    """Ask everything; `source` is the folder of the experiment, whose git commit is recorded."""
    with_threads = ThreadPoolExecutor(3, "inquiry")
    try:
        return Inquiry(
            gpu=with_threads.submit(find_gpu),
            ncu=with_threads.submit(_ncu),
            host=with_threads.submit(_host, source),
        )
    finally:
        with_threads.shutdown(wait=False)


def _ncu() -> tuple[Path, str]:
    path = find_ncu()
    return path, ncu_version(path)


def _host(source: Path) -> HostFacts:
    """Facts of this host, with the nvcc that a build would use."""
    try:
        nvcc = find_nvcc()
    except EnvironmentUnusable:  # which only a build minds
        nvcc = None
    return host_facts(nvcc=nvcc, source=source)
