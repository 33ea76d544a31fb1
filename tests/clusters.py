"""A scheduler of Dask on loopback, workers with GPUs that are made up, and coordinators."""

import json
import shutil
import socket
from contextlib import suppress
from pathlib import Path

import psutil
from whole_runs import wait_for

MODEL, DRIVER = "Made-up GPU", "580.1"


class Cluster:
    """Its processes are forks of the fork server, which are processes as real as others."""

    def __init__(self, command_line):
        self.line = command_line
        self.folder = command_line.folder
        for module in ("cluster_worker.py", "hasty_coordinator.py"):
            shutil.copy(Path(__file__).with_name(module), self.folder)
        self.port = free_port()
        self.scheduler = None
        self.workers = []
        self.coordinators = []

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.port}"

    def start_process(self, module, *arguments, **environment):
        return self.line.fork_server.start(
            module,
            [str(argument) for argument in arguments],
            cwd=self.folder,
            environment=self.line.changed(environment),
        )

    def start_scheduler(self):
        options = ("--host", "127.0.0.1", "--port", self.port, "--no-dashboard")
        self.scheduler = self.start_process("distributed.cli.dask_scheduler", *options)
        wait_for(lambda: answers(self.port))

    def start_worker(self, name, *flags, fault=None, driver=DRIVER, **environment):
        uuid = f"GPU-{name}-0000"
        facts = {
            "gpu": {"gpu": MODEL, "gpu_uuid": uuid, "driver": driver},
            "scratch": str(self.folder / "scratch" / name),
            **({"fault": fault} if fault else {}),
        }
        worker = self.start_process(
            "cluster_worker", json.dumps(facts), self.address, *flags, **environment
        )
        self.workers.append(worker)
        wait_for(lambda: _is_decided(worker.written()[1]))
        return worker

    def start_coordinator(self, spec, *flags, workers="", module="profiler", **environment):
        arguments = ("run", spec, "--workers", workers or self.address, "--no-report", *flags)
        self.coordinators.append(self.start_process(module, *arguments, **environment))
        return self.coordinators[-1]

    def measure(self, spec, *flags, **environment):
        return self.line.measure(spec, "--workers", self.address, *flags, **environment)

    def close(self):
        for process in filter(None, (*self.coordinators, *self.workers, self.scheduler)):
            end(process)


def _is_decided(written):
    """Whether the scheduler took a worker, or did not."""
    return "Measuring on" in written or "no scheduler takes this worker" in written


def end(process):
    """Kill a process with SIGKILL, and only it: what it started finds out by itself."""
    process.kill()
    process.wait(timeout=60)
    process.close()


def listening(process):
    """IP address of each socket that listens, of a process or one below it."""
    parent, found = psutil.Process(process.pid), []
    for one in (parent, *parent.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has asked the machine something, and is gone
            found += [
                connection.laddr.ip
                for connection in one.net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN
            ]
    return found


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def answers(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
