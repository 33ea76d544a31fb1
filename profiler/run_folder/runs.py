"""The runs in a folder: made, numbered, found, the newest first among those that may go on."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from profiler.errors import UsageError
from profiler.run_folder.documents import read_json
from profiler.run_folder.folder import (
    ARCHIVE_SUFFIX,
    RUN_FILE,
    RunFolder,
    RunRecord,
    folder_entries,
)


def require_folder(out: Path, flag: str = "--out") -> None:
    """Raise UsageError where runs cannot be written, before hours of measuring are lost."""
    nearest = out.resolve()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise UsageError(f"{flag} {out}: {nearest} is not a folder")
    if (reason := why_read_only(nearest)) is not None:
        raise UsageError(
            f"{flag} {out}: {nearest} cannot be written to: {reason}",
            remedy=f"Give another folder with {flag}.",
        )


def why_read_only(folder: Path) -> str | None:
    """Why a folder is not writable; None where it is."""
    try:
        # The bits of a folder do not tell of a file system that is read-only or full.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".profiler."):
            return None
    except OSError as error:
        return error.strerror or str(error)


def create_run(out: Path, experiment: str, created: str) -> RunFolder:
    """A new run folder `<out>/<experiment>/<time>`, never an existing one.

    `created` is a local time in ISO 8601.
    """
    stamp = datetime.fromisoformat(created).strftime("%Y%m%d-%H%M%S")
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        path = out / experiment / f"{stamp}{suffix}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(
                f"{path}: the run folder cannot be made: {error.strerror}",
                remedy="Choose another folder with --out.",
            ) from error
        return RunFolder(path)
    raise UsageError(f"{out / experiment}: too many runs in one second")


def runs(out: Path, experiment: str | None = None) -> tuple[RunFolder, ...]:
    """The run folders under `out`, oldest first: by number, then by the time in UTC.

    Raises OSError where the folder of an experiment that is named cannot be read.
    """
    if experiment is not None:
        folder_entries(out / experiment)  # to raise: `glob` takes what cannot be read for empty
    name = "*" if experiment is None else glob.escape(experiment)
    folders = [file.parent for file in out.glob(f"{name}/*/{RUN_FILE}")]
    return tuple(RunFolder(folder) for folder in sorted(folders, key=_order))


def recordings_in(folder: Path) -> dict[str, Path]:
    """Archives and run folders in a folder, by name without `.zip`; an archive goes first."""
    folders = (file.parent for file in folder.glob(f"*/{RUN_FILE}"))
    runs_and_archives = sorted((*folders, *folder.glob(f"*{ARCHIVE_SUFFIX}")))
    return {path.name.removesuffix(ARCHIVE_SUFFIX): path for path in runs_and_archives}


def recordings_here() -> dict[str, Path]:
    """Recordings in a project by name: in `recordings/` or `experiments/recordings/`."""
    return recordings_in(Path("recordings")) | recordings_in(Path("experiments/recordings"))


def find_recording(spec: Path, experiment: str) -> Path | None:
    """The recording beside a spec: `recordings/<experiment>.zip`, or a folder of that name."""
    return recordings_in(spec.parent / "recordings").get(experiment)


def next_number(out: Path, experiment: str) -> int:
    """RunRecord.number of a new run."""
    return 1 + max((_order(run.path)[0] for run in runs(out, experiment)), default=0)


def _order(folder: Path) -> tuple[int, float, tuple[str, int]]:
    """Sort key of a run; one with a damaged run.json counts as early."""
    try:
        data = read_json(folder / RUN_FILE)
        number = data.get("number", 0)
        began = datetime.fromisoformat(data["created"]).timestamp()
        return int(number), began, _time_and_number(folder)
    except (UsageError, KeyError, TypeError, ValueError, OverflowError):
        return 0, 0.0, _time_and_number(folder)


def _time_and_number(folder: Path) -> tuple[str, int]:
    """Time in the name of a run folder, and the number of the run in that second."""
    day, _, time_and_number = folder.name.partition("-")
    second, _, number = time_and_number.partition("-")
    return f"{day}-{second}", int(number) if number.isdecimal() else 1


def resumable(
    out: Path,
    experiment: str,
    keys: Mapping[str, str],
    warn: Callable[[str], None] = lambda _: None,
    on_outdated: Callable[[RunFolder, RunRecord], None] = lambda _run, _record: None,
) -> RunFolder | None:
    """The newest run of the experiment, if at least one of its cells has today's key.

    `warn`: as in `newest_run`. `on_outdated` gets a run without such a cell.
    """
    newest = newest_run(out, experiment, warn)
    if newest is None:
        return None
    run, record = newest
    if any(record.keys.get(cell) == key for cell, key in keys.items()):
        return run
    on_outdated(run, record)
    return None


def newest_run(
    out: Path,
    experiment: str,
    warn: Callable[[str], None] = lambda _: None,
    fits: Callable[[RunRecord], bool] = lambda _: True,
) -> tuple[RunFolder, RunRecord] | None:
    """The newest run of the experiment that fits; None without such a run.

    Recordings are passed over: they are finished. So are runs whose run.json is damaged: `warn`
    gets a sentence on each, since one of them may have been the newest.
    """
    newest: tuple[RunFolder, RunRecord] | None = None
    for run in runs(out, experiment):
        try:
            record = run.record()
            run.refuse_links()
        except UsageError as error:
            warn(f"Passed over: {error.message}")
            continue
        if not record.recording and fits(record):
            newest = (run, record)
    return newest
