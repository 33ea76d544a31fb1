"""Nsight Systems: its path, its command lines, and the meaning of its messages.

Facts about options and messages: nsys 2025.3.2 (the one inside Nsight Compute 2025.3.1) on an H200,
and the documents at docs.nvidia.com/nsight-systems (UserGuide, AnalysisGuide).

A report and its export hold the whole environment of the profiled process. They stay private:
`profiler.parse.nsys` reads only what names nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.collect import (
    STDERR,
    STDOUT,
    Collector,
    CollectorKind,
    Command,
    Need,
    Records,
    Tools,
    read_text,
    tail,
)
from profiler.collect.programs import Installed, find_tool
from profiler.collect.timer import diagnose_runner, runner_argv
from profiler.errors import EnvironmentUnusable
from profiler.runner.protocol import CAPTURE_PROGRAM, CAPTURE_VISITS

PRIVATE_FOLDER = "private"
"""Folder inside an attempt's for files that a tool wrote itself: they never leave the run."""
REPORT = f"{PRIVATE_FOLDER}/report.nsys-rep"
RAW = f"{PRIVATE_FOLDER}/report.qdstrm"
"""Raw recording of nsys, which remains where the importer could not convert it into a report."""
EXPORT = f"{PRIVATE_FOLDER}/timeline.sqlite"
"""Files of nsys in the folder of an attempt."""


INSTALLED = Installed(
    program="nsys",
    title="Nsight Systems",
    variable="PROFILER_NSYS",
    folders=(
        "opt/nvidia/nsight-systems/*/bin/nsys",
        "opt/nvidia/nsight-systems/*/target-linux-*/nsys",
        "opt/nvidia/nsight-systems-cli/*/bin/nsys",
        "opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
        "usr/local/cuda*/bin/nsys",
        "usr/local/cuda*/nsight-systems-*/bin/nsys",
        # Nsight Compute brings a whole nsys of its own.
        "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
        "usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
    ),
    install="Install it from developer.nvidia.com/nsight-systems (package nsight-systems-cli)",
    version=re.compile(r"Nsight Systems version\s+(\d+(?:\.\d+)+)"),
    # The nsys of a CUDA toolkit is a script that fails where the Nsight Systems that it belongs to
    # is not installed.
    without_version="Install Nsight Systems, or set PROFILER_NSYS to one that works.",
    # Writes `.nsys-rep`; before it was `.qdrep`. Options that came later (such as
    # `--cuda-graph-trace`) are told from the message about an unknown one.
    minimum=(2021, 4),
    needs=", with --cuda-graph-trace.",
    newer="Install a newer Nsight Systems, or set PROFILER_NSYS to one (that inside Nsight Compute "
    "2025.3 works).",
)
_IMPORTER = "QdstrmImporter"


@dataclass(frozen=True)
class Nsys(Collector):
    """Collector that puts the runner, or an external command, under nsys.

    nsys does not report which kernel failed, and files of a killed nsys cannot be imported.
    """

    path: Path
    capture: str = CAPTURE_PROGRAM
    """Part of the program that is recorded: all, from cudaProfilerStart to cudaProfilerStop
    (CAPTURE_VISITS), or the first range of a name (`NAME@DOMAIN`), so that warm-up is left out."""
    python: str | None = None
    name: str = "nsys"
    wraps_target: bool = True

    def session_command(self, job: Path, folder: Path, metrics: Sequence[str]) -> Command:
        """Command of a session; a timeline has no metrics to choose."""
        del metrics
        return self.profile_command(runner_argv(job, self.python), folder)

    def profile_command(self, target: Sequence[str], folder: Path) -> Command:
        """Command that records a timeline of any program into the private folder in `folder`.

        Only CUDA and NVTX, every node of a graph on its own. Sampling and context switches are off:
        with them, half a second of a program was seen to make a recording of 2 GB.
        """
        output = str((folder / REPORT).with_suffix(""))
        argv = (
            *(str(self.path), "profile"),
            "--trace=cuda,nvtx",
            "--sample=none",
            "--cpuctxsw=none",
            "--backtrace=none",
            "--cuda-graph-trace=node",
            *_capture_arguments(self.capture),
            "--force-overwrite=true",
            *("-o", output.replace("%", "%%")),  # %h and %p stand for host and process id
            *target,
        )
        # By default only registered strings are compared, and torch.cuda.nvtx registers none.
        by_name = self.capture not in (CAPTURE_PROGRAM, CAPTURE_VISITS)
        env = {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0"} if by_name else {}
        return Command(argv, env=env, files={"report": folder / REPORT})

    def diagnose(self, folder: Path, returncode: int) -> EnvironmentUnusable | None:
        """Error of the machine that the files of an attempt show, or None.

        nsys and the program print into one stream: where a report exists, nsys succeeded.
        """
        stdout, stderr = read_text(folder / STDOUT), read_text(folder / STDERR)
        if not (folder / REPORT).exists():
            fault = diagnose(f"{stdout}\n{stderr}") or _only_raw(folder)
            if fault is not None:
                return fault
        return diagnose_runner(stderr) if returncode != 0 else None

    def nothing_seen(self, folder: Path) -> EnvironmentUnusable | None:
        """Error for a session without a report, or with one without GPU activity; else None."""
        return _nothing_recorded() if (folder / REPORT).exists() else no_report(self.capture)

    def importer_command(self) -> Command | None:
        """Command that starts the importer alone, to print missing libraries; None where not found.

        nsys itself only says that it could not ask the importer for its version; give the command's
        output to `missing_library`.
        """
        importer = find_importer(self.path)
        return None if importer is None else Command((str(importer), "--version"))


def _create(tools: Tools) -> Nsys:
    if tools.nsys is None:
        raise EnvironmentUnusable("This run was prepared without nsys.", remedy="Run it again.")
    return Nsys(tools.nsys, capture=tools.nsys_capture, python=tools.python)


KIND: CollectorKind = CollectorKind(
    name="nsys",
    alias=None,
    title="nsys timeline",
    measures="the kernels of a launch on the timeline of Nsight Systems, launches one after "
    "another without a flush of caches",
    records=Records.TIMELINE,
    metric="nsys_duration_ns",
    create=_create,
    needs=frozenset({Need.NSYS}),
    settings=("timeline",),
    measures_commands=True,
    report_file=f"{REPORT}.gz",
)


def find_nsys(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Path:
    """Path of nsys: `PROFILER_NSYS`, then PATH, then NVIDIA's install folders, newest first.

    An install of Nsight Systems comes before the copy inside Nsight Compute. Raises
    EnvironmentUnusable where there is none. `root` is where the install folders are looked for.
    """
    return find_tool(INSTALLED, environ, root)


def find_importer(path: Path) -> Path | None:
    """Program beside an nsys that turns its raw recordings into reports, or None.

    nsys lies in `target-linux-x64` or `bin`, its importer in a `host-…` folder beside that.
    """
    folder = path.resolve().parent
    importers = (
        importer for importer in folder.parent.glob(f"*/{_IMPORTER}") if importer.is_file()
    )
    return min(importers, default=None)


def _capture_arguments(capture: str) -> list[str]:
    if capture == CAPTURE_PROGRAM:
        return []
    # The default ends the program together with the recording.
    end = "--capture-range-end=stop"
    if capture == CAPTURE_VISITS:
        return ["--capture-range=cudaProfilerApi", end]
    # Range first: the reverse of ncu's domain@range.
    return ["--capture-range=nvtx", f"--nvtx-capture={capture}", end]


_PACKAGES: Mapping[str, str] = {
    "libdw.so.1": "libdw1",
    "libelf.so.1": "libelf1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libnss3.so": "libnss3",
    "libxml2.so.2": "libxml2",
}
"""Debian's packages (packages.debian.org, bookworm) of libraries that hosts without a desktop lack
and the importer may ask for; libdw.so.1 was seen, the rest are for its neighbours."""

_MISSING_LIBRARY = re.compile(r"error while loading shared libraries: (\S+?):")
_NO_IMPORTER = re.compile(r"Unable to retrieve the importer version|importer binary and its depend")
_UNKNOWN_OPTION = re.compile(r"unrecogni[sz]ed option", re.IGNORECASE)


def missing_library(printed: str) -> EnvironmentUnusable | None:
    """Error for a library that a program of nsys could not load, with its package; else None."""
    match = _MISSING_LIBRARY.search(printed)
    if match is None:
        return None
    library = match[1]
    package = _PACKAGES.get(library)
    install = f"apt-get install {package}" if package else f"apt-file search {library}"
    return EnvironmentUnusable(
        f"nsys cannot load the library {library}.",
        remedy=f"Install the package that brings it ({install} on Debian and Ubuntu).",
    )


def diagnose(printed: str) -> EnvironmentUnusable | None:
    """Error of the machine or the request that nsys' messages report, or None.

    For an attempt that left no report: nsys returns what the program returned.
    """
    missing = missing_library(printed)
    if missing is not None:
        return missing
    if _NO_IMPORTER.search(printed):
        return _no_importer()
    if _UNKNOWN_OPTION.search(printed):
        return INSTALLED.too_old("nsys does not know an option that it was given")
    return None


def _only_raw(folder: Path) -> EnvironmentUnusable | None:
    return _no_importer() if (folder / RAW).exists() else None


def _no_importer() -> EnvironmentUnusable:
    return EnvironmentUnusable(
        f"nsys recorded, but could not turn its recording ({Path(RAW).name}) into a report: its "
        "importer does not start.",
        remedy="Install the library that it lacks, most often libdw.so.1 (apt-get install libdw1 "
        "on Debian and Ubuntu). Where the importer itself is not there, install the full Nsight "
        "Systems from developer.nvidia.com/nsight-systems and set PROFILER_NSYS to it.",
    )


def no_report(capture: str) -> EnvironmentUnusable:
    """Error for an nsys that wrote no report, with a remedy for the part that it was to record."""
    if capture == CAPTURE_PROGRAM:
        cause = "Check what the program printed, and that the folder can be written to."
    elif capture == CAPTURE_VISITS:
        cause = "The program must call cudaProfilerStart and cudaProfilerStop."
    else:
        name, _, domain = capture.partition("@")
        place = f"domain {domain}" if domain else "the default domain"
        cause = f"The program must open the range {name!r} in {place}."
    return EnvironmentUnusable("nsys wrote no report.", remedy=cause)


def convert_command(path: Path, report: Path, export: Path) -> Command:
    """Command of the nsys at `path` that converts a report into SQLite."""
    argv = (
        *(str(path), "export", "--type=sqlite", "--force-overwrite=true"),
        *("-o", str(export), str(report)),
    )
    return Command(argv, files={"export": export})


def _nothing_recorded() -> EnvironmentUnusable:
    return EnvironmentUnusable(
        "nsys recorded nothing that the GPU did.",
        remedy="Check that no other profiler holds CUPTI, that this nsys knows the driver, and "
        "that the program launches anything at all.",
    )


def convert_failed(export: Path, report: str, printed: str) -> EnvironmentUnusable | None:
    """Error of a report whose export is missing, else None; `printed`: by `convert_command`."""
    if export.exists():
        return None
    return diagnose(printed) or EnvironmentUnusable(
        f"nsys could not export {report}:\n{tail(printed)}",
        remedy="Export it with the nsys that recorded it, or a newer one.",
    )
