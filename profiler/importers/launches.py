"""Launches in pages, reports and texts of ncu: their metrics, and their hottest lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pandas as pd

from profiler.analyse.safe_frames import safe_frames
from profiler.analyse.samples import not_durations, to_catalogue_metrics
from profiler.analyse.timeline import MOST_NUMBERED
from profiler.analyse.why.sass_code import executed_by_class
from profiler.analyse.why.waited_for import samples_by_wait
from profiler.collect.ncu import LAUNCHES, SASS, SOURCE, find_ncu, report_pages
from profiler.errors import EnvironmentUnusable, ParseError, naming
from profiler.findings.json_model import json_value
from profiler.findings.why.hot_lines import HotLine, ListedKernel, file_name, hot_lines
from profiler.importers.given_file import GivenFile, Imported, notices_document, unread_notices
from profiler.importers.ncu_report_module import report_module, report_pages_by
from profiler.importers.ncu_text import TextPage
from profiler.machine.temporary_folders import temporary_folder
from profiler.machine.tool_output import CompletedCommand, output_of, run_commands
from profiler.model import SCHEMA_VERSION
from profiler.notices import Notice, NoticeKind, remedy, text
from profiler.parse.ncu_csv import NcuTable, parse_ncu_csv, read_ncu_csv
from profiler.parse.ncu_launches import LAUNCH_COLUMNS
from profiler.parse.ncu_source import (
    EXECUTED,
    Listing,
    join_lines,
    read_source_page,
)
from profiler.parse.nvtx_cells import NvtxRange, grouped_names, without_identifiers
from profiler.runner import protocol

_RANGE, _FULL_RANGE = "range", "full_range"
"""Columns of the paths of ranges, over all files: short as in groups, and complete."""
_ROWS_AT_ONCE = 1000
_DURATION_PART = "__time_duration"
"""Part of the names of ncu's metrics that are durations."""
_MODEL = "device__attribute_display_name"


@dataclass(frozen=True, eq=False)
class ImportedLaunches(Imported):
    """Launches of one or several files, and the lines at which their warps could not issue."""

    shows: ClassVar[str] = "launches, grouped by kernel, grid, block and NVTX range"
    launches: pd.DataFrame
    """The columns of a launch, then metrics of the catalogue, then every other raw metric. A source
    page has no rows: it lacks metrics of launches."""
    notices: tuple[Notice, ...] = ()
    kernels: tuple[ListedKernel, ...] = ()
    """Kernels whose instructions were counted (section SourceCounters)."""
    gpus: tuple[tuple[str, str, str], ...] = ()
    """File, model and compute capability of the GPU of its first launch; empty where not known."""

    @classmethod
    def of(cls, table: NcuTable, file: str) -> Self:
        """Launches of one table, with names as they stand in the file.

        Durations of zero, below, or of years are missing, with a notice.
        """
        launches, notices = _without_range_names(table.launches), list(table.notices)
        for metric in (name for name in launches.columns if _DURATION_PART in str(name)):
            values = pd.to_numeric(launches[metric], errors="coerce")
            is_invalid = not_durations(values)
            if is_invalid.any():
                launches = launches.assign(**{metric: values.mask(is_invalid)})
                facts: dict[str, str | int | float] = {
                    "file": file,
                    "count": int(is_invalid.sum()),
                    "metric": str(metric),
                    "example": f"{values[is_invalid].iloc[0]:g} ns",
                }
                notices.append(Notice(NoticeKind.CSV_NO_DURATIONS, facts))
        if launches.empty:
            notices.append(Notice(NoticeKind.CSV_NO_LAUNCHES, {"file": file}))
        model = str(table.attributes.get(_MODEL, ""))
        capability = next((str(cc) for cc in launches["cc"].dropna()), "")
        gpu = (file, model, capability)
        return cls(_catalogue_metrics_first(launches), tuple(notices), gpus=(gpu,))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Launches of all files, with the paths of their ranges.

        Raises ParseError where none of them has a launch, or an instruction.
        """
        if all(part.launches.empty and not part.kernels for part in parts):
            notices = [notice for part in parts for notice in part.notices]
            sentences = " ".join(map(text, notices))
            raise ParseError(sentences.removesuffix("."), remedy=remedy(notices[-1]))
        columns = [_RANGE, _FULL_RANGE]
        frames = [part.launches.drop(columns=columns, errors="ignore") for part in parts]
        frames = [frame for frame in frames if len(frame)] or frames[:1]
        launches = pd.concat(frames, ignore_index=True).copy()  # in one piece, for the insertions
        launches.insert(len(LAUNCH_COLUMNS), _RANGE, range_paths(launches["nvtx"]))
        paths = [" / ".join(map(_range, ranges or ())) for ranges in launches["nvtx"]]
        launches.insert(len(LAUNCH_COLUMNS), _FULL_RANGE, paths)
        gpus = tuple(gpu for part in parts for gpu in part.gpus)
        all_notices = (notice for part in parts for notice in part.notices)
        return safe_frames(
            cls(
                launches,
                (*all_notices, *_different_gpus(gpus)),
                tuple(kernel for part in parts for kernel in part.kernels),
                gpus,
            )
        )

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics."""
        other_columns = (*LAUNCH_COLUMNS, _RANGE, _FULL_RANGE)
        return tuple(str(name) for name in self.launches.columns if name not in other_columns)

    def document(self) -> dict[str, Any]:
        """The launches as JSON.

        An iterator makes them one by one, because all at once can take gigabytes.
        """
        return {
            "schema_version": SCHEMA_VERSION,
            "launches": _launches(self),
            "warnings": notices_document(self.notices),
            **({"kernels": _kernels_document(self.kernels)} if self.kernels else {}),
        }


def _different_gpus(gpus: Sequence[tuple[str, str, str]]) -> Iterator[Notice]:
    """Notice of files of different GPUs, by their models, or else compute capabilities."""
    models = {model for _, model, _ in gpus if model}
    capabilities = {capability for _, _, capability in gpus if capability}
    if max(len(models), len(capabilities)) > 1:
        files: dict[str, str] = {}
        for file, model, capability in gpus:
            files.setdefault(model or f"compute capability {capability or 'unknown'}", file)
        shown = ", ".join(f"{gpu} ({file})" for gpu, file in files.items())
        yield Notice(NoticeKind.IMPORT_OF_GPUS, {"gpus": shown})


def _without_range_names(launches: pd.DataFrame) -> pd.DataFrame:
    """Launches whose kernels lack the range that `--print-nvtx-rename kernel` puts before a name.

    With it each of a hundred ranges (`run_62/gemm`) would be a kernel of its own.
    """
    plain = [
        next((kernel.removeprefix(f"{item.name}/") for item in reversed(ranges or ())), kernel)
        if isinstance(kernel, str)
        else kernel
        for kernel, ranges in zip(launches["kernel"].astype(object), launches["nvtx"], strict=True)
    ]
    return launches.assign(kernel=pd.Series(plain, index=launches.index, dtype=object))


def range_paths(ranges: Iterable[tuple[NvtxRange, ...]]) -> list[str]:
    """NVTX ranges around each launch, outermost first, joined by ` / `; empty where none was open.

    Identifiers of calls, launches and blocks are left out; of many paths that differ in numbers
    alone, a star stands for the numbers.
    """
    paths = [
        " / ".join(filter(None, map(_group_label, launch_ranges or ()))) for launch_ranges in ranges
    ]
    groups = grouped_names(set(paths), MOST_NUMBERED)
    return [groups[path] for path in paths]


def _group_label(item: NvtxRange) -> str:
    """Name of a range in groups; empty for the runner's range of a launch."""
    visit = protocol.parse_range_name(item.name)
    if visit is not None:
        return visit[0]
    if protocol.parse_launch_range_name(item.name) is not None:
        return ""
    name = without_identifiers(item.name)
    return f"{item.domain}@{name}" if item.domain not in ("", protocol.NVTX_DOMAIN) else name


def _catalogue_metrics_first(launches: pd.DataFrame) -> pd.DataFrame:
    """Columns of a launch, then metrics of the catalogue, then raw ones.

    A launch's own grid and block (three numbers each) win over the metrics of that name.
    """
    identity = launches[list(LAUNCH_COLUMNS)]
    metrics = to_catalogue_metrics(launches).drop(columns=list(LAUNCH_COLUMNS), errors="ignore")
    raw = launches.drop(columns=[*LAUNCH_COLUMNS, *metrics.columns], errors="ignore")
    return pd.concat([identity, metrics, raw], axis=1)


def _launches(imported: ImportedLaunches) -> Iterator[dict[str, Any]]:
    metrics = imported.metrics
    for start in range(0, len(imported.launches), _ROWS_AT_ONCE):
        rows = imported.launches.iloc[start : start + _ROWS_AT_ONCE]
        yield from (_launch(row, metrics) for row in rows.to_dict("records"))


def _launch(row: dict[Any, Any], metrics: Sequence[str]) -> dict[str, Any]:
    return {
        "kernel": json_value(row["kernel"]),
        "id": json_value(row["id"]),
        "nvtx": [_range(item) for item in row["nvtx"] or ()],
        "block_size": json_value(row.get("block_size")),
        "grid_size": json_value(row.get("grid_size")),
        "metrics": {name: json_value(row[name]) for name in metrics},
    }


def _range(item: NvtxRange) -> str:
    """A range as ncu's own filters write it: `domain@name`, the default domain without a name."""
    return f"{item.domain}@{item.name}" if item.domain else item.name


# ---- lines at which warps could not issue --------------------------------------------------------


MOST_LINES = 20


def _listed_kernels(file: str, listings: Sequence[Listing]) -> tuple[ListedKernel, ...]:
    """Hottest lines and executed instructions of each listing of `file`."""
    return tuple(
        ListedKernel(
            file=file,
            kernel=listing.kernel,
            has_lines=listing.has_lines,
            lines=hot_lines(samples_by_wait(listing.instructions), MOST_LINES),
            executed={str(k): float(v) for k, v in executed_by_class(listing).dropna().items()},
        )
        for listing in listings
    )


def _kernels_document(kernels: Sequence[ListedKernel]) -> list[dict[str, Any]]:
    """Launches of source pages as JSON."""
    return [
        {
            "file": kernel.file,
            "kernel": kernel.kernel,
            "lines": [_line(line) for line in kernel.lines],
            "executed": {name: json_value(count) for name, count in kernel.executed.items()},
        }
        for kernel in kernels
    ]


def _line(line: HotLine) -> dict[str, Any]:
    return {
        "file": None if line.file is None else file_name(line.file),
        "line": line.line,
        "text": line.text,
        "samples_not_issued": json_value(line.samples),
        "share": json_value(line.share),
        "reason": line.reason or None,
        "executed": json_value(line.executed),
    }


# ---- from files ----------------------------------------------------------------------------------

_PAGE_TIMEOUT_S = 600.0


def read_csv(file: GivenFile) -> ImportedLaunches:
    """Launches of a raw or details page; raises ParseError with ncu's messages without a table."""
    if file.is_in_json:
        return ImportedLaunches.of(parse_ncu_csv(file.text, file.name), file.name)
    return ImportedLaunches.of(read_ncu_csv(file.path, limit=file.limit), file.name)


def read_source(file: GivenFile) -> ImportedLaunches:
    """Instructions of a source page."""
    listings, notices = read_source_page(file.text if file.is_in_json else file.path)
    if not listings:
        raise ParseError(
            f"{file.name}: a source page without instructions",
            remedy="Print it with --print-source sass or cuda,sass.",
        )
    without_metrics = pd.DataFrame(columns=list(LAUNCH_COLUMNS))
    return ImportedLaunches(without_metrics, notices, _listed_kernels(file.name, listings))


def read_text(file: GivenFile) -> ImportedLaunches:
    """Launches of ncu's text output without `--csv`."""
    page = TextPage(file.text)
    if not page.launches:
        raise ParseError(
            f"{file.name}: launches of ncu without their metrics",
            remedy="Give all that ncu printed, or the CSV of its report: ncu --import FILE --csv.",
        )
    launches = ImportedLaunches.of(parse_ncu_csv(page.csv, file.name), file.name)
    errors = (
        Notice(NoticeKind.CSV_TOOL_MESSAGE, {"file": file.name, "text": e}) for e in page.errors
    )
    return replace(
        launches, notices=(*launches.notices, *errors, *unread_notices(file.name, page.unread))
    )


def read_report(file: GivenFile) -> ImportedLaunches:
    """Launches and instructions of a report, by pages that ncu prints, or by NVIDIA's module."""
    try:
        ncu = find_ncu(file.environ)
    except EnvironmentUnusable as error:
        if (module := report_module()) is not None:
            return _read_with_module(module, file)
        raise _no_ncu_error(file, error) from error
    with file.unpacked() as report, temporary_folder() as folder:
        commands = report_pages(ncu, report)
        # Side by side: ncu reads the whole report for each.
        names = (LAUNCHES, SASS, SOURCE)
        completed = run_commands([commands[name] for name in names], _PAGE_TIMEOUT_S)
        pages = {
            name: _page_file(end, folder / f"{file.path.name}.{name}")
            for name, end in zip(names, completed, strict=True)
        }
        table = read_ncu_csv(pages[LAUNCHES])
        listings, notices = _listings(pages[SASS], pages[SOURCE], table.launches)
    launches = ImportedLaunches.of(table, file.name)
    kernels = _listed_kernels(file.name, listings)
    return replace(launches, kernels=kernels, notices=(*launches.notices, *notices))


def _read_with_module(module: Any, file: GivenFile) -> ImportedLaunches:
    with file.unpacked() as report:
        page, listings = report_pages_by(module, report, file.name)
    launches = ImportedLaunches.of(parse_ncu_csv(page, file.name), file.name)
    return replace(launches, kernels=_listed_kernels(file.name, listings))


def _no_ncu_error(file: GivenFile, error: EnvironmentUnusable) -> EnvironmentUnusable:
    name = file.plain_name
    return EnvironmentUnusable(
        f"{file.name} is a report, which only ncu can read: {error.message}",
        remedy=f"{error.remedy} Or install NVIDIA's module for reports (pip install ncu-report). "
        "Or print its pages where ncu is, and import those: "
        f"ncu --import {name} --csv --page raw --print-units base > launches.csv; "
        f"ncu --import {name} --csv --page source --print-source sass > source.csv",
    )


def _page_file(completed: CompletedCommand | EnvironmentUnusable, page: Path) -> Path:
    """File with a page of a report, or with ncu's messages; raises the error of ncu's start."""
    if isinstance(completed, EnvironmentUnusable):
        raise completed
    with naming(page):
        page.write_text(output_of(completed), encoding="utf-8")
    return page


def _listings(
    sass: Path, source: Path, launches: pd.DataFrame
) -> tuple[tuple[Listing, ...], tuple[Notice, ...]]:
    """Listings with their source lines; none where the report lacks counters of instructions."""
    kernels = [str(kernel) for kernel in launches["kernel"]]
    try:
        listings, notices = read_source_page(sass, kernels)
        with_lines, notices_on_lines = read_source_page(source)
    except ParseError:
        return (), ()
    counted = [listing for listing in listings if listing.instructions[EXECUTED].sum() > 0]
    return join_lines(counted, with_lines), (*notices, *notices_on_lines)
