"""Counters by NVTX range: the metrics of each part of a workload's launch.

Every row of ncu names the ranges that were open when its kernel was launched. Those that the
workload pushed inside a visit make a path, such as `("mlp", "step_3")`; the node of a CUDA graph
has the ranges around the launch of its graph. A kernel counts in its path and in every path around
it. Kernels of one path and visit become one value per metric by the rules of the catalogue, as
those of a whole visit do.

ncu keeps a stack of ranges for each domain (NvRules: INvtxDomainInfo; seen in 2025.3.1), so it does
not say which of two ranges of different domains was opened first: the parts of a path stand domain
by domain, the default one first, and a range that was pushed around a visit, which the runner never
does, counts as one inside. Where a file does have ranges of several domains in turn, it is in the
order of opening, and what stands before a visit is around it.

Ranges that only differ by a number at their end (`step_0`, `step_1`, …) have a row each, and
together one more (`step_*`), as `timeline.merge_numbered` names them: whichever of the two a reader
shows, it finds their numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analyse.metric_values import Ranges, add_derived, combine_metrics
from profiler.analyse.phases import VISIT
from profiler.analyse.samples import SAMPLE_COLUMNS, SampleOrigin
from profiler.analyse.timeline import merged_name, numbered_prefixes
from profiler.model import Environment, SessionKind
from profiler.parse.nvtx_cells import NvtxRange
from profiler.runner import protocol

RANGE_COLUMNS = ("cell", "path", "depth", "name", "kernels")
"""Keys of a row; every other column is a metric of the catalogue or of ncu.

`path`: tuple of names, outermost first, without the visit's; a name of another domain than
the default one is `domain@name`. `depth`: its length. `name`: its last. `kernels`: launches in it,
those of paths further in as well."""

VISIT_COLUMNS = ("session", "kind", "cell", "block", "arm", "path", "kernels")
"""Columns of one visit that are no metrics."""

Path = tuple[str, ...]
_Visit = tuple[str, int, int]
"""Cell, block and arm."""
_Key = tuple[_Visit, Path]

_NOWHERE: tuple[None, Path] = (None, ())
_NO_GROUP = -1
_MOST_MERGED = 3
"""Numbered ranges within each other whose numbers are taken off at once."""


def range_label(domain: str, name: str) -> str:
    """Name of a range in a path, with its domain where that is not the default."""
    return f"{domain}@{name}" if domain else name


# ---- of one attempt ------------------------------------------------------------------------------


def empty_range_visits() -> pd.DataFrame:
    """A frame of VISIT_COLUMNS without rows."""
    return _no_visits().copy(deep=False)


@cache
def _no_visits() -> pd.DataFrame:
    types = {"block": "int64", "arm": "int64", "kernels": "float64"}
    return pd.DataFrame({name: np.empty(0, types.get(name, object)) for name in VISIT_COLUMNS})


def range_visits(
    launches: pd.DataFrame, origin: SampleOrigin, finished: Collection[_Visit] | None = None
) -> pd.DataFrame:
    """One row per visit and path of ranges inside it: VISIT_COLUMNS and the metrics.

    Arguments as of `samples_from_launches`. Without rows where no launch has a range inside a
    visit: nothing is copied then.
    """
    paths = _visits_and_paths(launches["nvtx"], finished) if len(launches) else None
    if paths is None:
        return empty_range_visits()
    visits, codes = paths
    frames = [
        _combined_metrics(launches, keys, numbers, origin)
        for keys, numbers in _groups(visits, codes)
    ]
    frame = pd.concat(frames, ignore_index=True)
    return frame.assign(**origin.columns)[
        [*VISIT_COLUMNS, *(name for name in frame.columns if name not in VISIT_COLUMNS)]
    ]


def _visits_and_paths(
    nvtx: Iterable[Iterable[NvtxRange] | None], finished: Collection[_Visit] | None
) -> tuple[list[tuple[_Visit | None, Path]], npt.NDArray[np.intp]] | None:
    """Visit and path of each distinct stack, and the stack of each launch; None: no paths."""
    stacks: dict[Any, int] = {}
    codes = np.array([stacks.setdefault(ranges, len(stacks)) for ranges in nvtx], dtype=np.intp)
    if all(_is_of_profiler(item) for ranges in stacks for item in ranges or ()):
        return None
    # A start/end range has no place in the order of push/pop ranges, and no thread.
    pushed = [[item for item in ranges or () if item.thread is not None] for ranges in stacks]
    in_order = any(_domains_in_turn(ranges) for ranges in pushed)
    allowed = None if finished is None else set(finished)
    places = [_visit_and_path(ranges, in_order=in_order) for ranges in pushed]
    finished_places = [
        (visit, path) if allowed is None or visit in allowed else _NOWHERE for visit, path in places
    ]
    inside = any(visit is not None and path for visit, path in finished_places)
    return (finished_places, codes) if inside else None


def _domains_in_turn(ranges: Sequence[NvtxRange]) -> bool:
    """Whether a domain comes back after another one: then ranges are in the order of opening."""
    runs = [domain for domain, _ in groupby(ranges, key=lambda item: item.domain)]
    return len(runs) > len(set(runs))


def _visit_and_path(ranges: Sequence[NvtxRange], *, in_order: bool) -> tuple[_Visit | None, Path]:
    """The innermost visit, and the ranges that its thread pushed inside it."""
    for position in reversed(range(len(ranges))):
        visit = _visit_of_range(ranges[position])
        if visit is not None:
            inside = ranges[position + 1 :] if in_order else ranges
            labels = (range_label(r.domain, r.name) for r in inside if not _is_of_profiler(r))
            return visit, tuple(labels)
    return _NOWHERE


def _visit_of_range(item: NvtxRange) -> _Visit | None:
    return protocol.parse_range_name(item.name) if _is_of_profiler(item) else None


def _is_of_profiler(item: NvtxRange) -> bool:
    return item.domain == protocol.NVTX_DOMAIN


def _groups(
    visits: Sequence[tuple[_Visit | None, Path]], codes: npt.NDArray[np.intp]
) -> Iterator[tuple[list[_Key], npt.NDArray[np.intp]]]:
    """Groups of launches, one depth after another: keys of the groups, group of each launch.

    The group is -1 for launches that are in none at that depth.
    """
    prefixes = _prefixes(visits)
    deepest = max(len(path) for _, path in visits)
    for depth in range(1, deepest + 1):
        paths = [
            ()
            if visit is None or len(path) < depth
            else _path_variants(path[:depth], prefixes[visit[0]])
            for visit, path in visits
        ]
        for variant in range(max(map(len, paths))):
            keys = [
                None if visit is None or variant >= len(variants) else (visit, variants[variant])
                for (visit, _), variants in zip(visits, paths, strict=True)
            ]
            distinct = dict.fromkeys(key for key in keys if key is not None)
            places = {key: number for number, key in enumerate(distinct)}
            group_of_stack = [_NO_GROUP if key is None else places[key] for key in keys]
            yield list(places), np.array(group_of_stack, dtype=np.intp)[codes]


@cache
def _path_variants(path: Path, prefixes: tuple[str, ...]) -> tuple[Path, ...]:
    """The path, and the path without the numbers of any of its names.

    Which numbers a reader merges is not known here. Launches whose paths are equal without these
    numbers make one group.
    """
    numbered = [prefix for prefix in prefixes if merged_path(path, (prefix,)) != path]
    sizes = range(min(len(numbered), _MOST_MERGED) + 1)
    choices = (choice for size in sizes for choice in combinations(numbered, size))
    return tuple(merged_path(path, choice) for choice in choices)


def merged_path(path: Path, prefixes: Collection[str]) -> Path:
    """The path with `step_*` for `step_0`, `step_1`, … of each prefix (`step`)."""
    return tuple(merged_name(name, prefixes) for name in path)


def _prefixes(visits: Iterable[tuple[_Visit | None, Path]]) -> dict[str, tuple[str, ...]]:
    """Prefixes of numbered ranges of each cell."""
    names: dict[str, dict[str, None]] = {}
    for visit, path in visits:
        if visit is not None:
            names.setdefault(visit[0], {}).update(dict.fromkeys(path))
    return {cell: numbered_prefixes(of_cell) for cell, of_cell in names.items()}


def _combined_metrics(
    launches: pd.DataFrame,
    keys: Sequence[_Key],
    numbers: npt.NDArray[np.intp],
    origin: SampleOrigin,
) -> pd.DataFrame:
    inside = numbers != _NO_GROUP
    ranges = Ranges(launches[inside].reset_index(drop=True), numbers[inside], len(keys))
    visits, paths = zip(*keys, strict=True)
    identity = {
        **dict(zip(("cell", "block", "arm"), zip(*visits, strict=True), strict=True)),
        "path": _tuple_column(paths),
        "kernels": ranges.kernels().astype(np.float64),
    }
    values = combine_metrics(ranges, origin.metrics, origin.compute_capability)
    return pd.DataFrame({**identity, **values})


def _tuple_column(paths: Sequence[Path | None]) -> npt.NDArray[Any]:
    """A column of tuples, of which numpy would otherwise make a table."""
    column = np.empty(len(paths), dtype=object)
    for row, path in enumerate(paths):
        column[row] = path
    return column


# ---- of a run ------------------------------------------------------------------------------------


def range_counters(
    visits: pd.DataFrame, environment: Environment, cells: Sequence[str] = ()
) -> pd.DataFrame:
    """One row per cell and path: RANGE_COLUMNS and the metrics, derived metrics among them.

    `visits` as `range_visits` gives it, of any number of sessions. Values are means over visits,
    without second arms and finals; as in the summary, a metric that timing sessions measured is
    taken from them alone. Missing is NaN: a visit without a value does not count. Rows are in the
    order of `cells`, a path above those inside it. Without columns where there is nothing.
    """
    visits = visits[(visits["arm"] == 0) & (visits["kind"] != SessionKind.FINAL.value)]
    if cells:
        visits = visits[visits["cell"].isin(list(cells))]
    if visits.empty:
        return pd.DataFrame()
    places = list(zip(visits["cell"], visits["path"], strict=True))
    distinct = {place: number for number, place in enumerate(dict.fromkeys(places))}
    codes = np.array([distinct[place] for place in places], dtype=np.intp)
    visits = _with_derived(visits, codes, environment)
    names = [str(name) for name in visits.columns if name not in VISIT_COLUMNS]
    means = {name: _means(visits, name, codes) for name in ("kernels", *names)}
    frame = pd.DataFrame(
        {
            "cell": [cell for cell, _ in distinct],
            "path": _tuple_column([path for _, path in distinct]),
            "depth": [len(path) for _, path in distinct],
            "name": [path[-1] for _, path in distinct],
            **{name: mean.reindex(range(len(distinct))) for name, mean in means.items()},
        }
    )
    measured = [name for name in names if frame[name].notna().any()]
    return _in_tree_order(frame[[*RANGE_COLUMNS, *measured]], cells)


def _with_derived(
    visits: pd.DataFrame, codes: npt.NDArray[np.intp], environment: Environment
) -> pd.DataFrame:
    """Visits with their derived metrics; each path is computed as a cell of its own."""
    samples = visits.assign(cell=codes, collector="ncu", repeat=0, kernel_names="")
    derived = add_derived(samples, {}, environment)
    places = {*VISIT_COLUMNS, *SAMPLE_COLUMNS}
    names = [name for name in derived.columns if name not in places]
    return visits.assign(**{str(name): derived[name] for name in names})


def _means(visits: pd.DataFrame, name: str, codes: npt.NDArray[np.intp]) -> pd.Series[Any]:
    """Mean of a metric by number of path: of timing sessions if they measured it, else of all."""
    measured = visits[name].notna()
    timed = measured & (visits["kind"] == SessionKind.TIMING.value)
    rows = (timed if timed.any() else measured).to_numpy()
    return visits.loc[rows, name].astype("float64").groupby(codes[rows]).mean()


def _in_tree_order(frame: pd.DataFrame, cells: Sequence[str]) -> pd.DataFrame:
    """Rows by cell, then every path directly above the paths inside it, by first appearance."""
    first = {path: row for row, path in reversed(list(enumerate(frame["path"])))}
    cell_places = {cell: place for place, cell in enumerate(cells or frame["cell"].unique())}

    def place(row: int) -> tuple[int, ...]:
        path = frame["path"][row]
        outer_rows = (first[path[:depth]] for depth in range(1, len(path) + 1))
        return (cell_places[frame["cell"][row]], *outer_rows)

    return frame.iloc[sorted(range(len(frame)), key=place)].reset_index(drop=True)


# ---- beside a timeline ---------------------------------------------------------------------------


def tree_paths(tree: pd.DataFrame) -> list[Path | None]:
    """Path of each row of `timeline.range_tree`, to join range counters by; None: not in a visit.

    The ranges of a visit and of its launches have no name in it: their path is ().
    """
    paths: list[Path | None] = []
    rows = zip(tree["parent"], tree["domain"], tree["name"], strict=True)
    for parent, domain, name in rows:  # parents come before their children
        outer_path = None if parent < 0 else paths[parent]
        paths.append(_tree_path(outer_path, str(domain or ""), str(name)))
    return paths


def _tree_path(outer_path: Path | None, domain: str, name: str) -> Path | None:
    if domain == protocol.NVTX_DOMAIN:
        is_visit = name == VISIT or protocol.parse_range_name(name) is not None
        return () if is_visit else outer_path
    return None if outer_path is None else (*outer_path, range_label(domain, name))


def counters_of_paths(
    counters: pd.DataFrame, paths: Sequence[Path | None], metrics: Sequence[str]
) -> pd.DataFrame:
    """Counters of one cell by the paths of a tree, one row per path; NaN where there are none.

    Under a name with a star (`step_*`) the counters of all its ranges are added up, unless they
    were collected under that name; a sum that lacks a part is NaN.
    """
    names = {name for path in paths for name in path or () if name.endswith("_*")}
    prefixes = frozenset(name.removesuffix("_*") for name in names)
    values_of_path: dict[Path, list[float]] = {}
    parts_of_merged: dict[Path, list[list[float]]] = {}
    for row in counters.to_dict("records") if len(metrics) else []:
        path = tuple(str(name) for name in row["path"])
        values_of_path[path] = [float(row[metric]) for metric in metrics]
        merged = merged_path(path, prefixes)
        if merged != path:
            parts_of_merged.setdefault(merged, []).append(values_of_path[path])
    for path, parts in parts_of_merged.items():
        values_of_path.setdefault(path, np.sum(parts, axis=0).tolist())  # NaN where a part is
    missing = [float("nan")] * len(metrics)
    values = [missing if path is None else values_of_path.get(path, missing) for path in paths]
    return pd.DataFrame(values, columns=list(metrics), dtype="float64")
