"""The run that a command line names, by its folder or by its experiment."""

from __future__ import annotations

import re
from pathlib import Path

from profiler.errors import UsageError
from profiler.run_folder.folder import ARCHIVE_SUFFIX, RunFolder, recordings_here, runs

_NAME = re.compile(r"(?P<experiment>[^/~]+)(?:~(?P<back>\d+))?")


def find_run(text: str, out: Path) -> Path:
    """Folder or archive of the run that a command line names; raises UsageError where none is.

    A run folder, an archive of one such as a recording, a folder of runs (its newest), or an
    experiment: its newest run under `out`, or its recording in the folder here; `NAME~1` is the run
    before the newest.
    """
    path = Path(text)
    if RunFolder(path).exists() or (path.suffix == ARCHIVE_SUFFIX and path.is_file()):
        return path
    name = _NAME.fullmatch(text)
    if name is not None:
        recorded = runs(out, name["experiment"])
        back = int(name["back"] or 0)
        if back < len(recorded):
            return recorded[-1 - back].path
        if recorded:
            raise UsageError(f"{text}: {name['experiment']} has only {len(recorded)} runs in {out}")
        recording = recordings_here().get(name["experiment"]) if back == 0 else None
        if recording is not None:
            return recording
        if not recorded and (out / name["experiment"]).is_dir():
            raise UsageError(
                f"{text}: {out / name['experiment']} holds only replays, which have no raw files.",
                remedy="Name the folder of the recording that was replayed.",
            )
    if path.is_dir():
        return _newest_in(path, text)
    raise UsageError(
        f"{text}: neither a run folder nor an experiment with runs in {out}, and no recording",
        remedy="`profiler list` shows the runs that there are.",
    )


def _newest_in(folder: Path, text: str) -> Path:
    """The newest run of a folder of runs, such as `reports/softmax`."""
    recorded = runs(folder.resolve().parent, folder.resolve().name)
    if recorded:
        return recorded[-1].path
    raise UsageError(
        f"{text}: not a run folder (no run.json), and no runs in it",
        remedy="Name a run folder or a recording; the folder of a replay holds no raw files.",
    )
