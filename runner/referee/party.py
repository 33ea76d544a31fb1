"""One side of a match, as the judge sees it: a process that is stopped whenever it is not asked."""

from __future__ import annotations

import ctypes
import json
import os
import signal
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
"""Between the end of its channel and that of a process."""
_MOST_WORDS = 300
"""Letters of an error that are passed on."""
_PLACES = ("HOME", "TMPDIR", "XDG_CACHE_HOME")

Scheduling = tuple[int, frozenset[int]] | None
"""Priority and cores of a process; None of one that has gone."""


class Party:
    """The process of one file. It runs only while it is asked something."""

    def __init__(self, file: Path, *, is_trusted: bool, hidden: Path) -> None:
        """`is_trusted`: of the judge's own side, which may read what it likes.

        `hidden`: a file whose folder the other may not read.
        """
        self.name = file.name
        self.last_round = -1
        """Number of the newest round that it has seen: it sees none twice."""
        self._numbers = 0
        self._folder = tempfile.TemporaryDirectory(prefix="referee-")
        self._before: dict[int, Scheduling] = {}
        """Judge and all that it has started, with how they were scheduled before its turn."""
        self.stopped: tuple[int, ...] = ()
        """Its processes, while they are stopped."""
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
        # Not that of the judge, whose stderr tells what is wrong with this machine.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_GUEST), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                cwd=self._folder.name,
                env=self._variables(),
                process_group=0,
            )
        self.is_confined = False
        """Whether the system keeps it from files, processes and the network."""
        try:
            self._load(file, readable=[] if is_trusted else _readable(file, hidden))
        except BaseException:
            self.close()
            raise

    def _load(self, file: Path, readable: Sequence[str]) -> None:
        """Have it import its file; where a list is given, it may read nothing else."""
        writable = [self._folder.name]
        answer = self.ask("load", file=str(file), readable=readable, writable=writable)
        self.is_confined = answer["confined"] is True

    def _variables(self) -> dict[str, str]:
        """Environment: nothing in it tells where the run is kept."""
        folder = self._folder.name
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT_VARIABLES
            or (name.startswith(_KEPT_BEGINNINGS) and not name.endswith("_DIR"))
        }
        caches = {name: str(Path(folder, below)) for name, below in _CACHES.items()}
        places = dict.fromkeys(_PLACES, folder)
        return {**kept, **caches, **places, RUNNER_VARIABLE: str(os.getpid())}

    def ask(self, what: str, files: tuple[int, ...] = (), **message: Any) -> Mapping[str, Any]:
        """Give it a turn to do something; raises ForeignError where that fails."""
        self.make_ready()
        answer = self._exchange(what, files, message)
        self.stop()
        return answer

    def launch(self, message: Mapping[str, Any]) -> None:
        """Have it launch, and nothing more: this is timed.

        `make_ready` comes before, and `stop` after.
        """
        self._exchange("launch", (), message)

    def _exchange(
        self, what: str, files: tuple[int, ...], message: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self._numbers += 1
        content = json.dumps({"do": what, "number": self._numbers, **message}).encode()
        self._go_on()
        try:
            socket.send_fds(self._channel, [content], files)
            answer = self._channel.recv(MOST_BYTES)
        except OSError as error:
            raise self._ended() from error
        return self._read(answer)

    def _read(self, answer: bytes) -> Mapping[str, Any]:
        if not answer:
            raise self._ended()
        try:
            message = json.loads(answer)
            number, error, line = message["number"], message.get("error"), message.get("line")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._forged() from None
        if number != self._numbers:
            raise self._forged()
        if error is not None:
            self.stop()
            where = f"{self.name}:{line}" if isinstance(line, int) else self.name
            raise ForeignError(f"{where}: {str(error)[:_MOST_WORDS]}")
        return message  # type: ignore[no-any-return]  # a mapping: it has a number

    def _forged(self) -> ImplausibleError:
        self.close()
        return ImplausibleError(f"{self.name} answered what nobody had asked")

    def _ended(self) -> ForeignError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        end = os.fstat(self._output.fileno()).st_size
        output = os.pread(self._output.fileno(), _MOST_WORDS, max(end - _MOST_WORDS, 0))
        lines = output.decode(errors="replace").split("\n")
        self.close()
        code = self._process.returncode
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        last = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
        return ForeignError(f"the process of {self.name} ended {how}{last}")

    @property
    def lives(self) -> bool:
        """Whether it can be asked anything."""
        return self._channel.fileno() >= 0

    # ---- its turn ----

    def make_ready(self) -> None:
        """Take down what must be as it was when its turn is over."""
        processes = (os.getpid(), *_children(os.getpid()))
        self._before = {pid: _scheduling(pid) for pid in processes}

    def _go_on(self) -> None:
        stopped, self.stopped = self.stopped, ()
        for pid in stopped:
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """End its turn: from here on nothing of it runs, and so nothing writes its memory.

        Raises ImplausibleError where processes of its own have left it.
        """
        if self.stopped or not self.lives:
            return
        leader = self._process.pid
        os.kill(leader, signal.SIGSTOP)
        _, status = os.waitpid(leader, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._process.returncode = os.waitstatus_to_exitcode(status)
            raise self._ended()
        below: set[int] = set()
        # Not by the group, which they may leave; again, for those that were started meanwhile.
        while more := set(_descendants(leader)) - below:
            for pid in more:
                with suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            below |= more
        self.stopped = (leader, *below)
        self._refuse_orphans()
        self._refuse_scheduling()

    def _refuse_orphans(self) -> None:
        """End processes that this one has given away: they come to the judge, as their parent."""
        left = set(_children(os.getpid())) - self._before.keys()
        _kill(left)
        _reap(left)
        if left:
            raise ImplausibleError(f"{self.name} left processes behind that it does not own up to")

    def _refuse_scheduling(self) -> None:
        """Put back what it changed of when processes run, its own among them."""
        changed = [
            (pid, before)
            for pid, before in self._before.items()
            if before is not None and _scheduling(pid) not in (None, before)
        ]
        for pid, (priority, cores) in changed:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, priority)
                os.sched_setaffinity(pid, cores)
        if changed:
            raise ImplausibleError(f"{self.name} changed priorities or cores of processes")

    def close(self) -> None:
        """End it, and all that it has started."""
        below: tuple[int, ...] = ()
        if self._process.poll() is None:
            below = tuple(_descendants(self._process.pid))
            _kill((*below, self._process.pid))
        self._channel.close()
        self._output.close()
        self._process.wait()
        _reap(below)  # the judge is their parent now
        with suppress(OSError):
            self._folder.cleanup()


def _readable(file: Path, hidden: Path) -> list[str]:
    """What the process of a file may read: Python, this package, and the file with its folder.

    Not the folder where the hidden file lies in it: it would tell of problems and right results.
    """
    folders = [folder for folder in search_folders(file) if not hidden.is_relative_to(folder)]
    package = Path(__file__).parents[2]
    own = [package, (package / "runner").resolve()]
    installed = [entry for entry in sys.path if Path(entry).name.endswith("-packages")]
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, *installed]
    return [str(file), *map(str, (*folders, *own)), *python]


def _scheduling(pid: int) -> Scheduling:
    with suppress(OSError):
        return os.getpriority(os.PRIO_PROCESS, pid), frozenset(os.sched_getaffinity(pid))
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
