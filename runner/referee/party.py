"""A side of a match, as the judge sees it: a process that is stopped outside its turns."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import site
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from profiler.runner.failures import ForeignError
from profiler.runner.import_path import search_folders
from profiler.runner.protocol import RUNNER_VARIABLE
from profiler.runner.referee.confine import place_of_all
from profiler.runner.referee.guest import MOST_BYTES
from profiler.runner.seal import ImplausibleError

_GUEST = Path(__file__).with_name("guest.py")
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "CUDA_HOME", "OMP_NUM_THREADS", "TZ")
_KEPT_BEGINNINGS = ("CUDA_", "NVIDIA_", "TORCH_", "TRITON_", "PYTORCH_")
_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
}
"""Variables of compilers that name their caches, and folders for these."""
_ENDING_S = 1.0
"""Seconds from the end of a channel to the end of its process."""
_MOST_WORDS = 300
"""Most characters of an error that are passed on."""
_PLACES = ("HOME", "TMPDIR", "XDG_CACHE_HOME")

Scheduling = tuple[int, frozenset[int], int, int] | None
"""Priority, cores, policy and real-time priority of a process; None where it has ended."""


_READ_BYTES = 1 << 15
"""Bytes of the end of a process's output that are searched: behind a stack stand the names of all
extension modules."""
_FATAL = "Fatal Python error"
"""Beginning of what Python prints of a signal that ends it; the stack follows."""


class Party:
    """The process of one file. It runs only while it answers a request."""

    def __init__(self, file: Path, *, is_trusted: bool, hidden: Path) -> None:
        """`is_trusted`: of the judge's own side, which may read any file.

        `hidden`: a file whose folder the other side may not read.
        """
        self.name = file.name
        self.last_round = -1
        """Number of the newest round that the party has seen: it sees no round twice."""
        self._numbers = 0
        self._folder = tempfile.TemporaryDirectory(prefix="referee-")
        self._before: dict[int, Scheduling] = {}
        """Scheduling of the judge and its child processes before a turn, by process id."""
        self.stopped: tuple[int, ...] = ()
        """Ids of the party's processes, while they are stopped."""
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
        # Not the judge's stderr, which reports faults of this machine.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._channel, guest_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with guest_channel:
            os.set_inheritable(guest_channel.fileno(), True)
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_GUEST), str(guest_channel.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[guest_channel.fileno()],
                cwd=self._folder.name,
                env=self._variables(),
                process_group=0,
            )
        self.is_confined = False
        """Whether the system keeps the party from files, processes and the network."""
        self.unconfined = ""
        """Why a party that is not trusted may read more than its own file; empty if it may not."""
        try:
            self._load(file, readable=[] if is_trusted else _readable_paths(file, hidden))
        except BaseException:
            self.close()
            raise
        if not is_trusted:
            self.unconfined = _why_unconfined(hidden, is_confined=self.is_confined)

    def _load(self, file: Path, readable: Sequence[str]) -> None:
        """Make the process import its file; with a list of paths, it may read nothing else."""
        answer = self.ask("load", file=str(file), readable=readable, writable=[self._folder.name])
        self.is_confined = answer["confined"] is True

    def _variables(self) -> dict[str, str]:
        """Environment of the process, without the place of the run."""
        folder = self._folder.name
        kept_variables = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT_VARIABLES
            or (name.startswith(_KEPT_BEGINNINGS) and not name.endswith("_DIR"))
        }
        caches = {name: str(Path(folder, subfolder)) for name, subfolder in _CACHES.items()}
        places = dict.fromkeys(_PLACES, folder)
        named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        packages = {  # torch may be installed where only these say
            "PYTHONPATH": os.pathsep.join(filter(_holds_packages, named)),
            "PYTHONUSERBASE": site.getuserbase(),
        }
        of_run = {RUNNER_VARIABLE: str(os.getpid())}
        return {**kept_variables, **caches, **places, **packages, **of_run}

    def ask(self, request: str, files: tuple[int, ...] = (), **message: Any) -> Mapping[str, Any]:
        """Answer to a request, in a turn of its own; raises ForeignError where it fails."""
        self.make_ready()
        answer = self._exchange(request, files, message)
        self.stop()
        return answer

    def launch(self, message: Mapping[str, Any]) -> None:
        """Make the process launch, and nothing more: this is timed.

        `make_ready` comes before, and `stop` after.
        """
        self._exchange("launch", (), message)

    def _exchange(
        self, request: str, files: tuple[int, ...], message: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self._numbers += 1
        content = json.dumps({"do": request, "number": self._numbers, **message}).encode()
        stopped, self.stopped = self.stopped, ()
        for pid in stopped:
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        try:
            socket.send_fds(self._channel, [content], files)
            answer = self._channel.recv(MOST_BYTES)
        except OSError as error:
            raise self._end_error() from error
        return self._parse_answer(answer)

    def _parse_answer(self, answer: bytes) -> Mapping[str, Any]:
        if not answer:
            raise self._end_error()
        try:
            message = json.loads(answer)
            number, error, line = message["number"], message.get("error"), message.get("line")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._forgery_error() from None
        if number != self._numbers:
            raise self._forgery_error()
        if error is not None:
            self.stop()
            place = f"{self.name}:{line}" if isinstance(line, int) else self.name
            raise ForeignError(f"{place}: {str(error)[:_MOST_WORDS]}")
        return message  # type: ignore[no-any-return]  # a mapping: it has a number

    def _forgery_error(self) -> ImplausibleError:
        self.close()
        return ImplausibleError(f"{self.name} answered what nobody had asked")

    def _end_error(self) -> ForeignError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        end = os.fstat(self._output.fileno()).st_size
        output = os.pread(self._output.fileno(), _READ_BYTES, max(end - _READ_BYTES, 0))
        words, _, stack = output.decode(errors="replace").partition(_FATAL)
        self.close()
        code = self._process.returncode
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        lines = reversed(words.split("\n"))
        last = next((f": {line.strip()[-_MOST_WORDS:]}" for line in lines if line.strip()), "")
        frame = re.search(rf'{re.escape(self.name)}", line (\d+) in (.+)', stack)
        place = f" ({self.name}:{frame[1]} in {frame[2]})" if frame else ""
        return ForeignError(f"the process of {self.name} ended {how}{last}{place}")

    @property
    def is_alive(self) -> bool:
        """Whether the process can answer requests."""
        return self._channel.fileno() >= 0

    # ---- its turn ----

    def make_ready(self) -> None:
        """Note the scheduling of processes, which must be the same after the turn."""
        processes = (os.getpid(), *_children(os.getpid()))
        self._before = {pid: _scheduling(pid) for pid in processes}

    def stop(self) -> None:
        """End the turn: from here on no process of the party runs, and so none writes its memory.

        Raises ImplausibleError where processes have left the party.
        """
        if self.stopped or not self.is_alive:
            return
        leader = self._process.pid
        os.kill(leader, signal.SIGSTOP)
        _, status = os.waitpid(leader, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._process.returncode = os.waitstatus_to_exitcode(status)
            raise self._end_error()
        descendants: set[int] = set()
        # Not by the group, which processes may leave; repeated for processes started meanwhile.
        while new_pids := set(_descendants(leader)) - descendants:
            for pid in new_pids:
                with suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            descendants |= new_pids
        self.stopped = (leader, *descendants)
        self._refuse_orphans()
        self._restore_scheduling()

    def _refuse_orphans(self) -> None:
        """Kill orphans of the party, which the judge adopted; raises ImplausibleError for any."""
        orphans = set(_children(os.getpid())) - self._before.keys()
        _kill(orphans)
        _reap(orphans)
        if orphans:
            raise ImplausibleError(f"{self.name} left processes behind that it does not own up to")

    def _restore_scheduling(self) -> None:
        """Restore priorities and cores of processes; raises ImplausibleError where any changed."""
        changed = [
            (pid, before)
            for pid, before in self._before.items()
            if before is not None and _scheduling(pid) not in (None, before)
        ]
        for pid, (priority, cores, policy, real_time) in changed:
            with suppress(OSError):
                os.sched_setscheduler(pid, policy, os.sched_param(real_time))
                os.setpriority(os.PRIO_PROCESS, pid, priority)
                os.sched_setaffinity(pid, cores)
        if changed:
            raise ImplausibleError(f"{self.name} changed priorities or cores of processes")

    def close(self) -> None:
        """End the process, and its descendants."""
        descendants: tuple[int, ...] = ()
        if self._process.poll() is None:
            descendants = tuple(_descendants(self._process.pid))
            _kill((*descendants, self._process.pid))
        self._channel.close()
        self._output.close()
        self._process.wait()
        _reap(descendants)  # the judge is their parent now
        with suppress(OSError):
            self._folder.cleanup()


def _readable_paths(file: Path, hidden: Path) -> list[str]:
    """Paths that the process of a file may read: Python, this package, the file and its folder.

    Not a folder with the hidden file: that has the problems and the right results.
    """
    folders = [folder for folder in search_folders(file) if not hidden.is_relative_to(folder)]
    package = Path(__file__).parents[2]
    package_folders = [package, (package / "runner").resolve()]
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, *filter(_holds_packages, sys.path)]
    return [str(file), *map(str, (*folders, *package_folders)), *python]


def _why_unconfined(hidden: Path, *, is_confined: bool) -> str:
    """Why the other side may read more than its own file; empty if it may not."""
    if not is_confined:
        return "this kernel has no Landlock, which would keep it from files and other processes"
    place = place_of_all(hidden)
    return f"{hidden.name} lies in {place}, which every process may read" if place else ""


def _holds_packages(folder: str) -> bool:
    """Whether a folder of an import path is one that pip installs into."""
    return Path(folder).name.endswith("-packages")


def _scheduling(pid: int) -> Scheduling:
    with suppress(OSError):
        policy, real_time = os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority
        priority = os.getpriority(os.PRIO_PROCESS, pid)
        return priority, frozenset(os.sched_getaffinity(pid)), policy, real_time
    return None


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _reap(pids: Iterable[int]) -> None:
    """Wait for processes that were killed, so that none stays in the system's table."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, task.read_text().split())


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)
