"""Relations of the machines, the sources and the program of each cell in two runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from profiler.comparison.runs import ComparedRun
from profiler.model import BuildResult, Cell, Environment
from profiler.run_folder.load.outcomes import TunedChoice, choices_by_operation


class ProgramRelation(StrEnum):
    """Relation of a cell's program in two runs."""

    SAME_KEY = "same_key"
    """Everything that could change a number is the same: sources, machine code, machine, tools."""
    SAME_CODE = "same_code"
    """Machine code and launch parameters are the same."""
    SAME_TORCH = "same_torch"
    """The profiler compiles none of the cell's kernels, and torch has the same version."""
    SAME_SOURCE = "same_source"
    """Python source, with all files that it uses, and version of torch are the same."""
    FILES_EDITED = "files_edited"
    """Files of the workload were edited, and nothing tells whether this variant uses what changed:
    trusted to be the same."""
    RETUNED = "retuned"
    """A compiler made another program of the same source: its autotuner chose otherwise."""
    CHANGED = "changed"
    UNKNOWN = "unknown"

    @property
    def unchanged(self) -> bool:
        """Whether the cell may serve as a control."""
        return not self.other_code and self is not ProgramRelation.UNKNOWN

    @property
    def other_code(self) -> bool:
        """Whether other code ran in the newer run."""
        return self in (ProgramRelation.CHANGED, ProgramRelation.RETUNED)


def programs(
    older: ComparedRun, newer: ComparedRun, cells: Sequence[Cell]
) -> dict[str, ProgramRelation]:
    """Relation of the programs of each cell that both runs have, by its id."""
    older_cells = {cell.id: cell for cell in older.report.plan.cells}
    builds = [{build.variant: build for build in run.report.builds} for run in (older, newer)]
    edited = [file.name for file in edited_files(older, newer)]
    followed = {name for run in (older, newer) for name in _source_digests(run)}
    # Of whatever was opened but is no source of the workload, no digest of a variant tells.
    trusted = (
        {ProgramRelation.SAME_KEY, ProgramRelation.SAME_SOURCE} if {*edited} - followed else set()
    )
    if trusted or any(name.endswith(".py") for name in edited):
        trusted.add(ProgramRelation.SAME_TORCH)
    relations = {}
    for cell in cells:
        cell_builds = [by_variant.get(cell.variant.id) for by_variant in builds]
        program = _program_by_code(older, newer, (older_cells[cell.id], cell), cell_builds)
        if program is None:
            program = _program_by_source(older, newer, cell.variant.id, cell_builds)
        relations[cell.id] = ProgramRelation.FILES_EDITED if program in trusted else program
    return relations


def _program_by_code(
    older: ComparedRun,
    newer: ComparedRun,
    cells: tuple[Cell, Cell],
    builds: Sequence[BuildResult | None],
) -> ProgramRelation | None:
    """Relation of two programs by parameters, keys and machine code; None without machine code."""
    if dict(cells[0].variant.params) != dict(cells[1].variant.params):
        return ProgramRelation.CHANGED
    if retuned(older, newer, cells[1].id):
        return ProgramRelation.RETUNED
    keys = [run.record.keys.get(cells[1].id) for run in (older, newer)]
    if keys[0] is not None and keys[0] == keys[1]:
        return ProgramRelation.SAME_KEY
    codes = [None if build is None else build.program or build.code_hash for build in builds]
    if None not in codes:
        return ProgramRelation.SAME_CODE if codes[0] == codes[1] else ProgramRelation.CHANGED
    return None


def _program_by_source(
    older: ComparedRun, newer: ComparedRun, variant: str, builds: Sequence[BuildResult | None]
) -> ProgramRelation:
    """Relation of a cell's programs without machine code, by source and by torch's version."""
    changed = is_source_changed(older, newer, variant)
    if changed:
        return ProgramRelation.CHANGED
    compiled = any(build is not None and build.recipe_hash is not None for build in builds)
    versions = {run.report.environment.torch for run in (older, newer)}
    external = older.external or newer.external
    if compiled or external or None in versions or len(versions) > 1:
        return ProgramRelation.UNKNOWN
    return ProgramRelation.SAME_TORCH if changed is None else ProgramRelation.SAME_SOURCE


# ---- the machines --------------------------------------------------------------------------------


class Machines(StrEnum):
    """Relation of the machines of two runs."""

    SAME = "same_gpu"
    OTHER_CHIP = "another_gpu_of_the_same_model"
    SAME_MODEL = "same_model"
    """The same model; the runs did not record which chip."""
    DIFFERENT = "different_machines"


def machines_of(older: Environment, newer: Environment) -> Machines:
    """Relation of two machines by model and UUID of the GPU; without a GPU, by the processor."""
    if older.gpu != newer.gpu or (older.gpu is None and older.cpu != newer.cpu):
        return Machines.DIFFERENT
    if older.gpu_uuid is None or newer.gpu_uuid is None:
        return Machines.SAME_MODEL
    return Machines.SAME if older.gpu_uuid == newer.gpu_uuid else Machines.OTHER_CHIP


# ---- source files --------------------------------------------------------------------------------


_MOST_LINES = 200
"""Lines of a diff that are kept: a page shows what was edited, and is no archive."""


@dataclass(frozen=True)
class EditedFile:
    """A source file whose content differs between two runs."""

    name: str
    """Path from the workload's folder."""
    older: str | None
    """Digest of the older content; None where the older run has no such file."""
    newer: str | None
    diff: tuple[str, ...] = ()
    """Lines of a unified diff, without its head; empty where a run has no text of the file."""
    left_out: int = 0
    """Further lines of the diff."""


def edited_files(older: ComparedRun, newer: ComparedRun) -> tuple[EditedFile, ...]:
    """Files that differ between two runs, by name: of the workload, and opened by both runs."""
    opened = [_opened(run) for run in (older, newer)]
    sources = [_source_digests(run) for run in (older, newer)]
    names = opened[0].keys() & opened[1].keys()
    if all(sources):
        names |= sources[0].keys() | sources[1].keys()
    digests = [{**opened[run], **sources[run]} for run in (0, 1)]
    pairs = ((name, digests[0].get(name), digests[1].get(name)) for name in sorted(names))
    return tuple(
        _edited_file(name, before, after, older.source_texts, newer.source_texts)
        for name, before, after in pairs
        if before != after
    )


def _source_digests(run: ComparedRun) -> Mapping[str, str]:
    """Digest of each source file of the workload; empty where the run did not record them."""
    return {} if run.record.sources is None else run.record.sources.files


def _opened(run: ComparedRun) -> dict[str, str]:
    """Digest of each file that sessions opened, by its path in the folder of spec or workload.

    Without the sources, whose paths begin at another folder.
    """
    sources = set(_source_digests(run).values())
    files = run.record.opened.items()
    return {name.partition(":")[2]: digest for name, digest in files if digest not in sources}


def _edited_file(
    name: str,
    older: str | None,
    newer: str | None,
    older_texts: Mapping[str, str],
    newer_texts: Mapping[str, str],
) -> EditedFile:
    if any(
        digest is not None and name not in texts
        for digest, texts in ((older, older_texts), (newer, newer_texts))
    ):
        return EditedFile(name, older, newer)
    lines = list(
        difflib.unified_diff(
            older_texts.get(name, "").splitlines(),
            newer_texts.get(name, "").splitlines(),
            lineterm="",
        )
    )[2:]
    return EditedFile(
        name, older, newer, tuple(lines[:_MOST_LINES]), max(0, len(lines) - _MOST_LINES)
    )


def is_source_changed(older: ComparedRun, newer: ComparedRun, variant: str) -> bool | None:
    """Whether the sources of a variant differ; None where their digests were not recorded."""
    digests = [
        None if run.record.sources is None else run.record.sources.variants.get(variant)
        for run in (older, newer)
    ]
    return None if None in digests else digests[0] != digests[1]


# ---- choices of a compiler's autotuner -----------------------------------------------------------


__all__ = ["Retuned", "TunedChoice", "retuned"]


@dataclass(frozen=True)
class Retuned:
    """One kernel or operation of a cell for which the autotuners of two runs chose differently."""

    operation: str
    older: tuple[TunedChoice, ...]
    """Configurations that ran: several where kernels share a name, none where it did not run."""
    newer: tuple[TunedChoice, ...]

    @property
    def differing(self) -> tuple[tuple[str, object, object], ...]:
        """Settings that differ, as name, older and newer value (None: no such setting).

        Empty where an operation has other kernels, or a kernel of another library was chosen.
        """
        if len(self.older) != 1 or len(self.newer) != 1:
            return ()
        (older,), (newer,) = self.older, self.newer
        if older.choice != newer.choice:
            return ()
        names = dict.fromkeys((*newer.config, *older.config))
        settings = ((name, older.config.get(name), newer.config.get(name)) for name in names)
        return tuple(setting for setting in settings if setting[1] != setting[2])


def retuned(older: ComparedRun, newer: ComparedRun, cell: str) -> tuple[Retuned, ...]:
    """Operations of a cell (id) for which two runs chose differently, or which only one run has.

    Empty as well where one of the runs did not record its choices.
    """
    before, after = (_choices(run, cell) for run in (older, newer))
    if not before or not after:
        return ()
    operations = dict.fromkeys((*after, *before))
    pairs = (Retuned(name, before.get(name, ()), after.get(name, ())) for name in operations)
    return tuple(pair for pair in pairs if pair.older != pair.newer)


def _choices(run: ComparedRun, cell: str) -> dict[str, tuple[TunedChoice, ...]]:
    """Chosen configurations of a cell, by operation; empty where no choice was recorded."""
    return choices_by_operation(run.report.statuses[cell].tuning.tried)
