"""`profiler record`: what a replay needs of a run, without what is private to this machine."""

from __future__ import annotations

from profiler.commands.requests import RecordRequest
from profiler.comparison.find_run import find_run
from profiler.errors import ExitCode
from profiler.run_folder.archive import open_run
from profiler.run_folder.recording import write_recording
from profiler.run_folder.redact import private_names, private_texts
from profiler.sessions.progress import make_console


def make_recording(request: RecordRequest) -> ExitCode:
    """Write the recording; raises UsageError where the target holds anything but an older one."""
    run = open_run(find_run(str(request.run_folder), request.reports))
    private, names = private_texts(run.path), private_names(run.path)
    target = write_recording(run, request.target, private, names)
    make_console("auto").print(f"Recording: {target}", markup=False, soft_wrap=True)
    return ExitCode.COMPLETE
