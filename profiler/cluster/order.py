"""The order of a task as JSON: what a worker is to measure, of an experiment whose files it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import profiler
from profiler.model import BuildResult, Plan
from profiler.planning.spec import LoadedSpec, check_document
from profiler.planning.spec.source import read_text
from profiler.search.live.noise import Noise
from profiler.search.live.records import Terms

WITHOUT_EXPLANATIONS = "collect.explain=false"
"""Override: what is explained depends on all problems, and so it is decided by the coordinator."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Configurations that a search proposes, to be measured beside the baseline."""

    terms: Terms
    """Batches of one search are measured by one standing runner."""
    noise: Noise
    """Noise as the search knows it, to tell who is clearly behind."""
    incumbent: str | None
    """The best so far, which is measured first; None while there is none."""
    candidates: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Order:
    """All versions of some problems, cells to explain, or a batch of a search: for one GPU."""

    run: str
    """Id of this execution of the coordinator: what a worker keeps is of one."""
    spec_text: str
    spec_path: str
    """Path from the folder in which the coordinator works, and from that of the worker."""
    overrides: tuple[str, ...]
    plan: Plan
    """The cells that are to be measured, with the sessions of the whole experiment."""
    builds: tuple[BuildResult, ...]
    """With paths of the coordinator, as those of `stamped`."""
    stamped: Mapping[str, str]
    """Variant id → path of its library with stamps."""
    libraries: Mapping[str, str]
    """Path of a library at the coordinator → hash of its content, by which it travels."""
    sources: Mapping[str, str]
    """Cell id → hash of the files behind it, which a worker must have as well."""
    device: str
    """Model and driver that all GPUs of the run have."""
    timeline: bool = False
    explain: tuple[str, ...] | None = None
    """Ids of cells to explain; None: whatever is missing but explanations is measured."""
    batch: Batch | None = None
    """None: problems are measured, or cells explained."""
    quiet: bool = False
    """Whether the worker prints nothing, because it has the terminal of the coordinator."""
    profiler_version: str = field(default=profiler.__version__)


def spec_of_text(path: Path | str, text: str, overrides: Sequence[str]) -> LoadedSpec:
    """An experiment by its text, as a file at a path; raises SpecError as `load_spec`."""
    return check_document(read_text(Path(path), text), overrides=overrides)


def part_of(plan: Plan, problems: Collection[str], variants: Collection[str] | None = None) -> Plan:
    """The cells of some problems, with their visits in the sessions of the whole plan.

    `variants`: of these alone; None: of all.
    """
    cells = tuple(
        cell
        for cell in plan.cells
        if cell.problem.id in problems and (variants is None or cell.variant.id in variants)
    )
    ids = {cell.id for cell in cells}
    sessions = tuple(
        replace(session, visits=tuple(visit for visit in session.visits if visit.cell in ids))
        for session in plan.sessions
    )
    return replace(plan, cells=cells, sessions=sessions, excluded=(), search=None)


def builds_of(plan: Plan, builds: Sequence[BuildResult]) -> tuple[BuildResult, ...]:
    """Builds of the variants that a plan has."""
    variants = {variant.id for variant in plan.variants}
    return tuple(build for build in builds if build.variant in variants)


def path_from_here(path: Path) -> str:
    """Path of a file from the working folder, absolute where it lies elsewhere."""
    here = Path.cwd()
    absolute = here / path
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
