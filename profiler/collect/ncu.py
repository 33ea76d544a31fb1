"""Nsight Compute: its path, its command lines, and the meaning of its messages.

Facts about options and messages: ncu 2025.3.1 on an H200, `ncu --help`, and the documents at
docs.nvidia.com/nsight-compute (NsightComputeCli, ProfilingGuide).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profiler.collect import STDERR, STDOUT, CollectorKind, Command, Need, Records, Tools, read_text
from profiler.collect.programs import Installed, find_tool
from profiler.collect.timer import diagnose_runner, runner_argv
from profiler.errors import EnvironmentUnusable
from profiler.model import Outcome

LOG = "ncu.csv"
REPORT = "report.ncu-rep"
RECOVERED = "recovered.csv"
RULES, SASS, SOURCE = "rules.csv", "sass.csv", "source.csv"
SERIES = "series.json"
"""Names of ncu's files in the folder of an attempt, and of files with pages. The extension of
the report is given because it changes: ncu 2026.3 writes `.ncu-repz` where none is named."""
LAUNCHES = "launches.csv"
"""Name of the raw page of a report that was made elsewhere."""

KERNEL_REPLAY = "kernel"
"""ncu's default in every release."""

APPLICATION_REPLAY = "application"
"""Starts the program once for each pass."""

RANGE_ROW = "range"
"""Kernel name that ncu 2025.3.1 writes in the row of a replayed range."""

NVTX_INCLUDE = "regex:(cell|roof)=.*/"
"""Pattern of the ranges of a visit or of a practical roof (`profiler.runner.protocol.range_name`,
`roof_range_name`), whatever is pushed inside; the slash makes it a filter of push/pop ranges."""

_DERIVED = "derived__"
"""Prefix of names that ncu's files of sections define."""

_WITHOUT_WORKERS = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Environment in which inductor starts no compile workers. Attached to 16 children, ncu took 105 ms
for each launch of their parent even where they slept, and 187 where they were such workers; 4
without (2025.3.1, H100). Not attached, it failed in a run with JAX, CuPy and Numba, for a reason
that is not known: `driver resource was unavailable`."""

_DELIMITERS = re.compile(r"[/,@]")
"""Delimiters of ncu's range filters. An expression with one of them is not handed to
ncu: every launch is profiled, and rows of launches in other ranges are left out by the parser."""
INSTALLED = Installed(
    program="ncu",
    title="Nsight Compute",
    variable="PROFILER_NCU",
    folders=("usr/local/cuda*/bin/ncu", "opt/nvidia/nsight-compute/*/ncu"),
    install="Install it with the CUDA toolkit or from developer.nvidia.com/nsight-compute",
    version=re.compile(r"^Version\s+(\d+(?:\.\d+)+)", re.MULTILINE),
    without_version="Check that this is Nsight Compute; set PROFILER_NCU to the right one.",
    # The oldest release whose `ncu --help` was seen to list `--rename-kernels` (2025.1.1). Without
    # `--rename-kernels off`, a file in the user's home can change kernel names.
    minimum=(2025, 1),
    needs=" for --rename-kernels and --config-file.",
    newer="Install Nsight Compute 2025.1 or newer, or set PROFILER_NCU to one.",
)


@dataclass(frozen=True)
class Ncu:
    """Collector that puts the runner, or an external command, under ncu."""

    path: Path
    cache_control: str = "all"
    clock_control: str = "none"
    python: str | None = None
    replay_mode: str = KERNEL_REPLAY
    """How passes are repeated: `kernel`, `range` (our NVTX ranges) or `application`."""
    sections: tuple[str, ...] = ()
    """Sections to collect beside the metrics, with the source of the kernels."""
    child_processes: bool = True
    """Whether ncu attaches to the processes that its target starts."""
    name: str = "ncu"
    wraps_target: bool = True

    def session_command(self, job: Path, folder: Path, metrics: Sequence[str]) -> Command:
        """Command of a session: the runner under ncu, only kernels inside our NVTX ranges."""
        return self.command(runner_argv(job, self.python), folder, metrics)

    def diagnose(self, folder: Path, returncode: int) -> EnvironmentUnusable | None:
        """Error of the machine that the files of an attempt show, or None."""
        stdout, stderr = read_text(folder / STDOUT), read_text(folder / STDERR)
        fault = diagnose(read_text(folder / LOG), stdout, stderr)
        if fault is not None or returncode == 0:
            return fault
        return diagnose_runner(stderr)

    def nothing_seen(self, folder: Path) -> EnvironmentUnusable | None:
        """Error for a session in which ncu profiled no kernel, or None."""
        return no_kernels(read_text(folder / LOG))

    def cell_fault(self, folder: Path) -> tuple[Outcome, str] | None:
        """Outcome and cause of the kernel that ran when the session died, by the log; or None."""
        return cell_fault(read_text(folder / LOG))

    def recover_command(self, folder: Path) -> Command | None:
        """Command that prints the rows of a report whose ncu was killed before it printed them.

        ncu writes the report as it goes and the CSV only at its end (seen with 2025.3.1). None
        where there is no report, or where the log has its rows already.
        """
        report, recovered = folder / REPORT, folder / RECOVERED
        if not report.exists() or has_rows(read_text(folder / LOG)):
            return None
        # No --nvtx: 2025.3.1 refuses it together with --import, and prints the ranges without it.
        argv = (
            *(str(self.path), "--import", str(report), "--csv", "--page", "raw"),
            *("--config-file", "off", "--rename-kernels", "off", "--print-units", "base"),
            *("--log-file", str(recovered)),
        )
        return Command(argv, env={"LC_ALL": "C"}, files={"log": recovered})

    def explaining(self, sections: Sequence[str]) -> Ncu:
        """Collector whose report has these sections and the source of the kernels."""
        return replace(self, sections=tuple(sections))

    def page_commands(self, folder: Path) -> Mapping[str, Command]:
        """Commands that print the pages of RULES, SASS, SOURCE and SERIES, by file."""
        pages = report_pages(self.path, folder / REPORT)
        return {name: pages[name] for name in (RULES, SASS, SOURCE, SERIES)}

    def command(
        self,
        target: Sequence[str],
        folder: Path,
        metrics: Sequence[str],
        launches: Sequence[str] | None = None,
    ) -> Command:
        """Command that profiles `target`; `launches`: `launch_filter` of an external program.

        `metrics` are full names of ncu. Of the runner only kernels inside our ranges are profiled;
        ranges are recorded in the CSV either way. No `--null-stdin`: the session has no terminal
        and an empty stdin.
        """
        log, report = folder / LOG, folder / REPORT
        arguments = [
            # Files of the user's that would change a run without a trace.
            *("--config-file", "off"),
            *("--rename-kernels", "off"),
            *("--print-units", "base"),
            "--csv",
            *("--page", "raw"),
            # Their defaults change between releases.
            *("--clock-control", self.clock_control),
            *("--cache-control", self.cache_control),
            *("--target-processes", "all" if self.child_processes else "application-only"),
            *("--metrics", ",".join(metrics)),
            *("--log-file", str(log)),
            *("-f", "-o", str(report)),
            "--nvtx",
        ]
        if self.replay_mode != KERNEL_REPLAY:
            arguments += ["--replay-mode", self.replay_mode]
        if self.sections:
            arguments += [word for section in self.sections for word in ("--section", section)]
            arguments += ["--import-source", "yes"]
        elif not any(name.startswith(_DERIVED) for name in metrics):
            # By default ncu reads all its sections when it starts (0.3 s); this folder has none.
            arguments += ["--section-folder", str(folder)]
        if launches is None:
            arguments += ["--nvtx-include", NVTX_INCLUDE]
        else:
            arguments += launches
        return Command(
            argv=(str(self.path), *arguments, *target),
            # ncu prints thousands separators by locale.
            env={"LC_ALL": "C"} | (_WITHOUT_WORKERS if launches is None else {}),
            files={"log": log, "report": report},
        )


def _create(tools: Tools) -> Ncu:
    if tools.ncu is None:
        raise EnvironmentUnusable("This run was prepared without ncu.", remedy="Run it again.")
    return Ncu(
        tools.ncu,
        cache_control=tools.cache_control,
        clock_control=tools.clock_control,
        replay_mode=tools.replay_mode,
        child_processes=tools.child_processes,
        python=tools.python,
    )


KIND: CollectorKind = CollectorKind(
    name="ncu",
    alias=None,
    title="ncu",
    measures="each kernel alone on the GPU, by its hardware counters, gaps left out; caches are "
    "empty when a launch begins, except with warm caches",
    records=Records.COUNTERS,
    metric="duration_ns",
    create=_create,
    needs=frozenset({Need.NCU, Need.GPU}),
    settings=(
        *("metrics", "counter_samples", "ncu_timing", "explain"),
        *("cache_control", "clock_control", "replay_mode", "child_processes"),
    ),
    measures_commands=True,
)


def find_ncu(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> Path:
    """Path of ncu: `PROFILER_NCU`, then PATH, then NVIDIA's install folders, newest first.

    Raises EnvironmentUnusable where there is none. `root` is where the install folders are looked
    for.
    """
    return find_tool(INSTALLED, environ, root)


def report_pages(path: Path, report: Path) -> Mapping[str, Command]:
    """Commands of the ncu at `path` that print pages of a report to stdout, by name of the page.

    The launches; the rules with all details; SASS with its counters; source lines with the SASS of
    each; the launches with all samples that were taken inside them.
    """
    raw = ("--page", "raw", "--config-file", "off", "--rename-kernels", "off")
    pages = {
        LAUNCHES: raw,
        RULES: ("--page", "details"),
        SASS: ("--page", "source", "--print-source", "sass"),
        SOURCE: ("--page", "source", "--print-source", "cuda,sass"),
        SERIES: (*raw, "--print-metric-instances", "details"),
    }
    start = (str(path), "--import", str(report), "--csv")
    return {
        name: Command((*start, *page, "--print-units", "base"), env={"LC_ALL": "C"})
        for name, page in pages.items()
    }


def page_of_launches(page: Command, skip: int, count: int) -> Command:
    """Command that prints a source page of `count` launches of a report, after the first `skip`.

    The outputs of all shares, one after the other, are the whole page (seen with 2025.3.1).
    """
    share = ("--launch-skip", str(skip), "--launch-count", str(count))
    return replace(page, argv=(*page.argv, *share))


def launch_filter(
    kernel: str | None = None,
    *,
    skip: int | None = None,
    count: int | None = None,
    ranges: str | None = None,
) -> list[str]:
    """Arguments of ncu for the launches of an external program that are profiled.

    `kernel`: exact function name, or `regex:<expression>`; None: every kernel. Of the matching
    launches `skip` pass first, and `count` are profiled. `ranges`: regular expression of push/pop
    ranges around them, `domain@…` for another domain than the default one; None: in any or none.
    """
    arguments: list[str] = []
    if kernel is not None:
        arguments += ["--kernel-name", kernel]
    if skip is not None:
        arguments += ["--launch-skip", str(skip)]
    if count is not None:
        arguments += ["--launch-count", str(count)]
    if ranges is not None and not _DELIMITERS.search(ranges.rpartition("@")[2]):
        arguments += ["--nvtx-include", f"regex:{ranges}/"]
    return arguments


WITHOUT_NCU = (
    "Without ncu and without permission, --timer (collect.collectors=timer) gives verdicts by CUDA "
    "events, and no counters."
)
"""For a workload in Python or of a `.cu` file; an external command has no other collector."""

PERMISSION = (
    "Run as root or with CAP_SYS_ADMIN (CAP_PERFMON from driver 565), in a container with "
    "--cap-add=SYS_ADMIN; or allow all users: put `options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/, rebuild the initramfs and "
    "reboot. Under WSL: in the NVIDIA Control Panel of Windows. "
    f"See developer.nvidia.com/ERR_NVGPUCTRPERM. {WITHOUT_NCU}"
)

_MESSAGES: Sequence[tuple[re.Pattern[str], str, str]] = (
    (
        re.compile(r"ERR_NVGPUCTRPERM"),
        "ncu may not read the GPU's performance counters (ERR_NVGPUCTRPERM).",
        PERMISSION,
    ),
    (
        re.compile(r"driver resource was unavailable", re.IGNORECASE),
        "Another tool is using the GPU's performance counters.",
        "Pause DCGM (`dcgmi profile --pause`) and end other ncu, nsys or CUPTI processes on this "
        "GPU.",
    ),
    (
        re.compile(r"Failed to open/create lock file|InterprocessLockFailed"),
        "ncu cannot open its lock file in the temporary folder: it belongs to another user.",
        "Set TMPDIR to a folder of your own and run again.",
    ),
    (
        re.compile(r"Cuda driver is not compatible", re.IGNORECASE),
        "The NVIDIA driver and this Nsight Compute do not fit together.",
        "Update the driver, or set PROFILER_NCU to the ncu of a toolkit that the driver knows.",
    ),
    (
        re.compile(r"LibraryNotLoaded"),
        "ncu cannot load the driver's profiling library.",
        "The driver's user-space libraries must match its kernel module; in a container, mount "
        "them with the NVIDIA container toolkit. Sandboxes such as gVisor cannot profile.",
    ),
    (
        re.compile(r"MIG instance", re.IGNORECASE),
        "Some of the metrics belong to units that MIG instances share, and cannot be read in one.",
        "Leave those metrics out, or measure on a GPU without MIG.",
    ),
    (
        re.compile(r"did not match any section", re.IGNORECASE),
        "ncu does not know a section that was asked for.",
        "Check the name with `ncu --list-sections`.",
    ),
    (
        re.compile(r"Failed to find metric", re.IGNORECASE),
        "ncu does not know a metric that was asked for.",
        "Check the name with `ncu --query-metrics`; names differ between architectures.",
    ),
)
"""Messages of ncu that mean the machine or the request, not a cell: pattern, message, remedy."""

_UNKNOWN_OPTION = re.compile(r"unrecogni[sz]ed option", re.IGNORECASE)


def diagnose(log: str, stdout: str, stderr: str) -> EnvironmentUnusable | None:
    """Error of the machine or the request that ncu's messages report, or None.

    Exit codes say little: ncu was seen to leave with 0 after ERR_NVGPUCTRPERM and when nothing was
    profiled. Only lines that ncu marks as its own (`==ERROR==`) count, since a program may print
    anything.
    """
    tool_lines = _tool_lines(log, stdout, stderr)
    if _UNKNOWN_OPTION.search(tool_lines):
        return INSTALLED.too_old("ncu does not know an option that it was given")
    for pattern, message, remedy in _MESSAGES:
        if pattern.search(tool_lines):
            return EnvironmentUnusable(_quoting(message, tool_lines, pattern), remedy=remedy)
    return None


def no_kernels(log: str) -> EnvironmentUnusable | None:
    """Error for an ncu log that reports no profiled kernel, or None.

    Apart from `diagnose`, because the log says the same of a session whose first cell
    crashed before it launched anything.
    """
    if "No kernels were profiled" not in log:
        return None
    return EnvironmentUnusable(
        "ncu saw no kernel to profile.",
        remedy="A workload must launch on the GPU, from the thread that calls it; launches of "
        "processes that it starts count unless collect.child_processes is false. For an external "
        "command check the kernel filter, launch_skip and launch_count, and that it runs at all.",
    )


def cell_fault(log: str) -> tuple[Outcome, str] | None:
    """Outcome and cause that ncu's log gives for the kernel it was profiling when the session died.

    After a faulting kernel ncu prints `LaunchFailed` and ends the program with SIGKILL itself, so
    the program never reports the fault (seen with an illegal address on an H200).
    """
    if re.search(r"^==ERROR== LaunchFailed", log, re.MULTILINE):
        return (
            Outcome.ILLEGAL_ADDRESS,
            "the kernel faulted under ncu, most often at an illegal address (LaunchFailed)",
        )
    return None


def has_rows(log: str) -> bool:
    """Whether a log of ncu has reached its CSV."""
    return log.startswith('"ID"') or '\n"ID"' in log


def _tool_lines(*texts: str) -> str:
    lines = (line for text in texts for line in text.splitlines())
    marked_lines = (line for line in lines if line.startswith(("==ERROR==", "==WARNING==")))
    own_lines = (
        line for line in marked_lines if "The application returned an error code" not in line
    )
    return "\n".join(own_lines)


def _quoting(message: str, tool_lines: str, pattern: re.Pattern[str]) -> str:
    line = next(line for line in tool_lines.splitlines() if pattern.search(line))
    return f"{message}\n  ncu printed: {line[:400]}"
