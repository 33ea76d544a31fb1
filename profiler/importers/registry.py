"""Every format that is imported: its recogniser, and its reader.

A new format is an entry of `IMPORTERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from profiler.errors import ParseError, UsageError
from profiler.importers import launches, timelines, tunings
from profiler.importers.given_file import SQLITE, GivenFile, Imported, has_any
from profiler.importers.launches import ImportedLaunches
from profiler.importers.ncu_text import is_ncu_text
from profiler.importers.nsys_stats_tables import is_nsys_stats
from profiler.importers.timelines import ImportedTimelines
from profiler.importers.tunings import ImportedTunings
from profiler.notices import Notice, NoticeKind
from profiler.parse.bounded_files import require_regular
from profiler.parse.inductor import is_inductor_log
from profiler.parse.ncu_lines import HEADER, OTHER_ORDER
from profiler.parse.ncu_source import is_source_page
from profiler.search.kernel_tuner import is_tuner_cache


@dataclass(frozen=True)
class Importer:
    """One format: its recogniser, and its reader."""

    name: str
    """Name of such a file in messages: `a trace of torch.profiler`."""
    files: str
    """Description of such files, for the table of docs/import.md."""
    gives: type[Imported] | None
    """Content of such files; None of a format that is recognised but not read."""
    read: Callable[[GivenFile], Imported]
    """Reader; raises ParseError for an unreadable file, EnvironmentUnusable without a tool."""
    is_in_text: Callable[[str], bool] = lambda _: False
    """Whether a text, or the beginning of one, holds such content; cheap on other texts. By default
    files are known by their names alone."""
    endings: tuple[str, ...] = ()
    """Endings of the names of such files (packed or not), whatever their content."""


# ---- recognisers of formats ----------------------------------------------------------------------

_NCU_CSV = re.compile(
    rf"^(?:{HEADER}|{OTHER_ORDER})|\"ID\",\"(?:Process ID|Kernel Name)\"", re.MULTILINE
)
_NCU_MESSAGE = re.compile(r"^==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)
_NCU_SUMMARY = re.compile(
    r", Invocations \d+\s*$|^\"(?:Process ID|Kernel Name)\",.*\"Invocations\",.*\"Minimum\"",
    re.MULTILINE,
)
_PHASE = re.compile(r'"ph"\s*:')
_T1 = re.compile(r'^\s*\{(?=.*"ConfigurationSpace"\s*:)(?=.*"TuningParameters"\s*:)', re.DOTALL)
_T4 = re.compile(
    r'^\s*\{(?=.*"results"\s*:)(?=.*"configuration"\s*:)(?=.*"invalidity"\s*:)', re.DOTALL
)
_NVPROF = re.compile(
    r"==\d+== (?:NVPROF is profiling|Profiling result|Profiling application)"
    r"|^\"?Type\"?,\"?Time ?\(%\)|^\"?Start\"?,\"?Duration\"?,\"?Grid X"
    r"|^[ \t]*Type +Time\(%\) +Time +Calls|^[ \t]*Start +Duration +Grid Size"
    r"|^\"?Device\"?,\"?Kernel\"?,\"?Invocations",
    re.MULTILINE,
)
_ROCPROF_COLUMNS = (
    *("KernelName", "gpu-id", "Agent_Id", "TotalDurationNs", "Start_Timestamp", "GPU_ID"),
    *("Counter_Name", "Logical_Node_Id"),
)
_ROCPROF = re.compile(
    r"^\"?(?:Index|Name|Kind|Domain|Correlation_Id|Dispatch_ID|Node_Id)\"?,.*"
    rf"(?:{'|'.join(_ROCPROF_COLUMNS)})",
    re.MULTILINE,
)
_ARCHIVE = re.compile(
    r"(?s:PK\x03\x04|BZh[1-9]1AY|\ufffd7zXZ\0|7z\ufffd\ufffd|\(\ufffd/\ufffd|.{257}ustar)"
)
"""Beginnings of zip, bzip2, xz, 7z, Zstandard and tar, decoded as text."""
_BENCHMARK = re.compile(
    r'"nvbench"\s*:\s*\{|"tag"\s*:\s*"nv/|"Average GPU Time \(Cold\)"|^Benchmark,Device,Device Name'
    r'|"library_build_type"\s*:|^name,iterations,real_time,cpu_time,time_unit'
    r'|"machine_info"\s*:(?=.*"commit_info"\s*:)'
    r'|\A\s*\{\s*"results"\s*:\s*\[\s*\{\s*"command"\s*:|^command,mean,stddev,median,user,system'
    r"|^x_val;|^(?=.*\bAvgValue\b).*\bStableMeasurement\b",
    re.MULTILINE,
)
_BENCHMARK_WORDS = (
    *('"nvbench"', '"nv/', "Average GPU Time (Cold)", "Benchmark,Device", "library_build_type"),
    *("name,iterations,", '"machine_info"', '"command"', "command,mean", "x_val;"),
    "StableMeasurement",
)
_COMPILER = re.compile(
    r"^ptxas info\s*:|^ Function \S+:\s+REG:\d|^[ \t]*Function : \S+\s+\.headerflags", re.MULTILINE
)
_PROTON = re.compile(r'^\s*\[(?=.*"frame"\s*:)(?=.*"children"\s*:)(?=.*"metrics"\s*:)', re.DOTALL)
_NVPROF_TABLE, _ROCPROF_TABLE = "StringTable", "rocpd_"
"""Tables of databases of nvprof and of rocprofv3."""


def _matches(pattern: re.Pattern[str], *words: str) -> Callable[[str], bool]:
    """Recogniser of texts in which a pattern matches anywhere.

    `words`: every match has one of them. Finding none takes a hundredth of the pattern's time.
    """
    return lambda text: (not words or has_any(text, words)) and pattern.search(text) is not None


def _is_trace(text: str) -> bool:
    """Whether a text is an object with events, or a bare list of events."""
    start = text.lstrip()
    if start.startswith("["):
        return _PHASE.search(text) is not None
    return start.startswith("{") and '"traceEvents"' in text


def _is_nsys_export(text: str) -> bool:
    return text.startswith(SQLITE) and not has_any(text, (_NVPROF_TABLE, _ROCPROF_TABLE))


_is_nvprof_text = _matches(_NVPROF, "== ", "(%)", "Grid X", "Grid Size", "Invocations")
_is_rocprof_table = _matches(_ROCPROF, *_ROCPROF_COLUMNS)


def _is_nvprof_output(text: str) -> bool:
    if text.startswith(SQLITE):
        return _NVPROF_TABLE in text and "CUPTI_ACTIVITY_KIND" in text
    return _is_nvprof_text(text)


def _is_rocprof_output(text: str) -> bool:
    if text.startswith(SQLITE):
        return _ROCPROF_TABLE in text
    return _is_rocprof_table(text) or '"rocprofiler-sdk-tool"' in text


# ---- all formats ---------------------------------------------------------------------------------


def _refused_format(name: str, is_in_text: Callable[[str], bool], remedy: str) -> Importer:
    """A format that is recognised and refused; `remedy` says what to import instead."""

    def refuse(file: GivenFile) -> NoReturn:
        raise ParseError(f"{file.name}: {name}, which is not read", remedy=remedy)

    return Importer(name, f"{name}: {remedy}", None, refuse, is_in_text)


IMPORTERS = (
    _refused_format(
        "an archive, or a file packed by another program than gzip",
        lambda text: _ARCHIVE.match(text) is not None,
        "Unpack it and give what is in it; a recording of a run is read by `report`.",
    ),
    Importer(
        name="CSV of ncu",
        files="CSV that ncu wrote, any page ([what is understood](parse.md))",
        gives=ImportedLaunches,
        read=launches.read_csv,
        is_in_text=_matches(_NCU_CSV, "Process ID", "Kernel Name"),
    ),
    Importer(
        name="a source page of ncu",
        files="CSV of `ncu --import FILE --csv --page source --print-source sass` or `cuda,sass`: "
        "of each launch the 20 lines with the most samples in which the warp could not issue, what "
        "it waited for, and executed warp instructions by class",
        gives=ImportedLaunches,
        read=launches.read_source,
        is_in_text=is_source_page,
    ),
    Importer(
        name="a report of ncu",
        files="`.ncu-rep` and `.ncu-repz`, where ncu is installed (`PROFILER_NCU`, PATH, NVIDIA's "
        "folders), or else its Python module `ncu_report` can be imported; also what a source page "
        "shows, of launches whose instructions were counted (section `SourceCounters`)",
        gives=ImportedLaunches,
        read=launches.read_report,
        endings=(".ncu-rep", ".ncu-repz"),
    ),
    Importer(
        name="text of ncu",
        files="what ncu prints without `--csv`: metrics and NVTX ranges; the advice of its rules "
        "is counted",
        gives=ImportedLaunches,
        read=launches.read_text,
        is_in_text=is_ncu_text,
    ),
    Importer(
        name="a trace of torch.profiler",
        files="Chrome traces of torch.profiler (`export_chrome_trace`)",
        gives=ImportedTimelines,
        read=timelines.read_trace,
        is_in_text=_is_trace,
    ),
    Importer(
        name="a timeline of nsys",
        files="SQLite exports of Nsight Systems (`nsys export --type sqlite`)",
        gives=ImportedTimelines,
        read=timelines.read_export,
        is_in_text=_is_nsys_export,
        # A file of that name is refused with its faults as an export.
        endings=(".sqlite",),
    ),
    Importer(
        name="a report of nsys",
        files="reports of Nsight Systems (`.nsys-rep`, `.qdrep`), where nsys is installed "
        "(`PROFILER_NSYS`, PATH, NVIDIA's folders, inside Nsight Compute)",
        gives=ImportedTimelines,
        read=timelines.read_report,
        endings=(".nsys-rep", ".qdrep"),
    ),
    Importer(
        name="a cache of kernel_tuner",
        files="cache files of kernel_tuner, also of a run that was stopped; "
        "[`simulate`](search.md) replays searches on them",
        gives=ImportedTunings,
        read=tunings.read_cache,
        is_in_text=is_tuner_cache,
    ),
    Importer(
        name="results in the format T4",
        files="results of a tuning in the format T4 (the median of the runs of each "
        "configuration); [`simulate`](search.md) replays searches on them",
        gives=ImportedTunings,
        read=tunings.read_results,
        is_in_text=_matches(_T4, '"invalidity"'),
    ),
    # Lines of the formats below stand among output of programs, which may hold those above, too.
    Importer(
        name="messages of ncu",
        files="messages of ncu without a table: the error says them",
        gives=None,
        read=launches.read_csv,
        is_in_text=_matches(_NCU_MESSAGE, "== "),
    ),
    Importer(
        name="a table of `nsys stats`",
        files="what `nsys stats` prints, in columns, as CSV, TSV or JSON: `cuda_gpu_trace`, "
        "`cuda_api_trace`, `nvtx_pushpop_trace`; the sums of `cuda_gpu_kern_sum`, "
        "`cuda_gpu_mem_time_sum`, `cuda_gpu_sum`, `cuda_api_sum`, `cuda_api_gpu_sum`, `nvtx_sum`, "
        "`nvtx_pushpop_sum`, `nvtx_gpu_proj_sum` and `nvtx_gpu_proj_trace`",
        gives=ImportedTimelines,
        read=timelines.read_nsys_stats,
        is_in_text=is_nsys_stats,
    ),
    Importer(
        name="a log or a cache of an autotuner",
        files="logs and caches of inductor's autotuner ([fusion.md](fusion.md)), whatever a "
        "notebook, a rank or a server puts before their lines; what Triton prints with "
        "`TRITON_PRINT_AUTOTUNING=1` (what it tried and chose, without times)",
        gives=ImportedTunings,
        read=tunings.read_log,
        is_in_text=is_inductor_log,
    ),
    _refused_format(
        "a summary of ncu",
        _matches(_NCU_SUMMARY, "Invocations"),
        "Print the launches: leave out --print-summary.",
    ),
    _refused_format(
        "output of nvprof",
        _is_nvprof_output,
        "Measure with ncu or nsys, which have taken its place; `import` reads their files.",
    ),
    _refused_format(
        "output of rocprof",
        _is_rocprof_output,
        "Record the program with torch.profiler, if it uses torch: Chrome traces of AMD's GPUs are "
        "read.",
    ),
    _refused_format(
        "a result of a benchmark (NVBench, Google Benchmark, pytest-benchmark, hyperfine, "
        "tritonbench, nsight-python)",
        _matches(_BENCHMARK, *_BENCHMARK_WORDS),
        "Measure its program here: docs/own-programs.md.",
    ),
    _refused_format(
        "output of a compiler or of cuobjdump",
        _matches(_COMPILER, "ptxas info", "REG:", ".headerflags"),
        "`build` shows registers, spills and shared memory of an experiment's kernels.",
    ),
    _refused_format(
        "a profile of Triton's Proton",
        _matches(_PROTON, '"children"'),
        "Record the program with torch.profiler or nsys: their timelines are read.",
    ),
    _refused_format(
        "a space to search in the format T1",
        _matches(_T1, '"TuningParameters"'),
        "`simulate` replays searches of it on its results (docs/search.md); these, in the format "
        "T4, are imported.",
    ),
)
"""Importers in the order in which they are tried: the first that recognises a file reads it."""


def importers_of(file: GivenFile, *, read_all: bool = True) -> tuple[Importer, ...]:
    """Importers that recognise a file, the one to read it first.

    `read_all`: whether the whole file is searched where its beginning is of no format.
    """
    by_name = [i for i in IMPORTERS if i.endings and file.plain_name.endswith(i.endings)]
    by_head = by_name or [i for i in IMPORTERS if i.is_in_text(file.head)]
    if by_head or not read_all:
        return tuple(by_head)
    return tuple(i for i in IMPORTERS if i.is_in_text(file.text))


def read_files(
    paths: Sequence[Path], limit: int | None = None, environ: Mapping[str, str] | None = None
) -> tuple[Imported, tuple[Notice, ...]]:
    """Content of files, and notices on parts of other formats that were not read.

    `limit`: most bytes that a packed file or a trace may hold, by default
    bounded_files.MAX_UNPACKED_BYTES. `environ`: environment in which tools are searched.

    Raises ParseError where a file cannot be read, UsageError where files cannot be shown together,
    and EnvironmentUnusable where a tool is missing.
    """
    files = [GivenFile(path, limit, environ) for path in paths]
    recognised = [(file, _required_importers(file)) for file in files]
    first, (importer, *_) = recognised[0]
    for file, (file_importer, *_) in recognised:
        if importer.gives and file_importer.gives and file_importer.gives is not importer.gives:
            raise UsageError(
                f"{first.name} is {importer.name}, and {file.name} is {file_importer.name}.",
                remedy="Import files of one kind at a time: a pattern in quotes ('*.sqlite') "
                "stands for what it matches.",
            )
    parts = [
        file_importer.read(file)
        for file, importers in recognised
        for file_importer in importers
        if file_importer.gives is importers[0].gives
    ]
    notices = [
        Notice(NoticeKind.IMPORT_NOT_READ, {"file": file.name, "what": file_importer.name})
        for file, (importer, *other_importers) in recognised
        for file_importer in other_importers
        if file_importer.gives and file_importer.gives is not importer.gives
    ]
    return type(parts[0]).joined(parts), tuple(notices)


def _required_importers(file: GivenFile) -> tuple[Importer, ...]:
    require_regular(file.path)
    if not file.path.is_file():
        remedy = (
            "Save what comes out of a pipe in a file, and give that." if file.name == "-" else ""
        )
        raise ParseError(f"{file.path}: no such file.", remedy=remedy)
    recognisers = importers_of(file)
    if not recognisers and not file.head:
        raise ParseError(f"{file.path}: the file is empty.")
    if not recognisers:
        format_names = "; ".join(dict.fromkeys(i.name for i in IMPORTERS if i.gives))
        raise ParseError(
            f"{file.path}: nothing in it is of a format that is read",
            remedy=f"These are: {format_names}.",
        )
    return recognisers


def files_in(folder: Path) -> Iterator[tuple[Path, bool]]:
    """Files of a folder, each with whether its name or beginning is of a format that is read."""
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        recognisers = importers_of(GivenFile(path), read_all=False)
        yield path, bool(recognisers and recognisers[0].gives)
