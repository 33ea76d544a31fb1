"""The run folder of a worker for one problem: it stays where the worker is killed, and goes on."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from profiler.cluster.job import Job
from profiler.cluster.parcels import Parcel, unpacked
from profiler.run_folder.folder import COMPILED_FOLDER, RunFolder

_READY = "ready"
"""File that is made when everything that the coordinator has lies here."""
_SENT = "sent"
"""Folder with an empty file for each attempt that the coordinator has."""


@dataclass(frozen=True)
class ProblemFolder:
    """A run folder, and which of its attempts the coordinator has."""

    path: Path
    run: RunFolder

    @property
    def was_left(self) -> bool:
        """Whether a process that was killed has begun the problem here."""
        return (self.path / _READY).exists()

    def prepare(self, compiled: Path, earlier: Sequence[Parcel]) -> None:
        """Make the run folder, with the attempts that the coordinator has under their names."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.run.path.mkdir(parents=True)
        (self.path / _SENT).mkdir()
        compiled.mkdir(parents=True, exist_ok=True)
        (self.run.path / COMPILED_FOLDER).symlink_to(compiled)
        for parcel in earlier:
            document, files = unpacked(parcel)
            folder = self.run.path / "raw" / document["attempt"]
            folder.mkdir(parents=True)
            for name, content in files.items():
                (folder / name).write_bytes(content)
            self.note_sent(folder)
        (self.path / _READY).touch()

    def note_sent(self, attempt: Path) -> None:
        """Write down that the coordinator has an attempt."""
        (self.path / _SENT / attempt.name).touch()

    def unsent(self) -> list[Path]:
        """Folders of the attempts that the coordinator has not, in their order."""
        sent = {mark.name for mark in (self.path / _SENT).iterdir()}
        return [a.folder for a in self.run.attempts() if a.folder.name not in sent]


@contextmanager
def problem_folder(root: Path, job: Job) -> Iterator[ProblemFolder]:
    """Folder of a problem in that of a worker: the same for each task that measures it for a run.

    It is gone afterwards, unless the process is killed.
    """
    text = "\0".join((job.queue, job.problem, job.explain or ""))
    path = root / f"problem.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        yield ProblemFolder(path, RunFolder(path / job.plan.experiment / "run"))
    finally:
        shutil.rmtree(path, ignore_errors=True)
