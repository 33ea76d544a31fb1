"""Cells of a comparison between runs as rows, the slowest regression first, with their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.comparison.changes import BetweenRunsReason, CellChange, MetricChange
from profiler.comparison.compare import RunComparison
from profiler.comparison.programs import Machines, ProgramRelation, Retuned, TunedChoice
from profiler.comparison.steps import RunStep
from profiler.metrics.queries import label
from profiler.model import FEWEST_BLOCKS, Verdict
from profiler.render.tables.method import ENVIRONMENT_WORDS
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, change_datum, text_column
from profiler.render.tuning import config_words
from profiler.render.words import numbers
from profiler.render.words.verdicts import LAUNCH_WORDS, percent


def changes_in_order(step: RunStep) -> tuple[CellChange, ...]:
    """Every cell that both runs have: slower ones first, the slowest of them on top.

    Those whose code changed come before the others.
    """
    return tuple(change for group in step.by_code for change in group.ranked)


def change_table(comparison: RunComparison) -> SmallTable:
    """The step to the newest run: a row for each cell that both runs have."""
    step = comparison.last
    older, newer = (comparison.runs[place].name for place in (step.older, step.newer))
    control = comparison.variant_name(step.control)
    relative = "relative to the baseline's own shift" if control else "of the durations"
    columns: tuple[Column[CellChange], ...] = (
        text_column("problem", lambda change: comparison.problem(change.cell.id)),
        Column(f"run {step.numbers[0]}", older_time, f"Median duration in {older}", drop=1),
        Column(f"run {step.numbers[1]}", newer_time, f"Median duration in {newer}", drop=1),
        Column("ratio", lambda c: _ratio(c, control), f"{ratio_words(step)}, {relative}", drop=0),
        text_column("interval", lambda c: numbers.interval(c.ratio_low, c.ratio_high), drop=2),
        Column("verdict", verdict_datum, is_text=True, drop=0),
        text_column("why", reason_words, drop=3, css="prose narrow"),
        text_column("program", lambda c: PROGRAM_WORDS[c.program], drop=2, css="prose narrow"),
        text_column("what changed", change_words, drop=4, css="prose"),
    )
    changes = changes_in_order(step)
    places = {change.cell.id: place for place, change in enumerate(changes)}

    def named(change: CellChange) -> Row:
        cell = change.cell.id
        role = "baseline" if change.is_control else "other"
        return Row(
            comparison.variant(cell), mark=comparison.mark(cell), role=role, cell=places[cell]
        )

    caption = f"{newer} relative to {older}; ratio: {relative}"
    return SmallTable.of(caption, "variant", columns, changes, named)


def older_time(change: CellChange) -> Datum:
    """Median duration of a cell in the older run."""
    return Datum.quantity(change.durations.older_ns, "ns", "not measured")


def newer_time(change: CellChange) -> Datum:
    """Median duration of a cell in the newer run."""
    return Datum.quantity(change.durations.newer_ns, "ns", "not measured")


def _ratio(change: CellChange, control: str) -> Datum:
    """The ratio; `control` is the name of the variant that it is relative to."""
    quantity = f"relative to {control}" if change.controlled else "duration"
    title = f"{quantity}; durations alone: {numbers.ratio(change.durations.raw_ratio)}"
    return Datum.times(change.ratio, "not measured in both runs", title)


def change_words(change: CellChange) -> str:
    """Words on a different tuning, static facts that differ, and the counters that moved most."""
    alone = len(change.retuned) == 1
    retuned = (_retuned_words(operation, alone=alone) for operation in change.retuned)
    return ", ".join((*retuned, *map(_metric_words, change.most_telling)))


# ---- facts and counters --------------------------------------------------------------------------


def metric_table(
    caption: str, changes: Sequence[MetricChange], comparison: RunComparison
) -> SmallTable:
    """Metrics before and after, a row each; of those that scatter the change, too."""
    columns: list[Column[MetricChange]] = [
        text_column("problem", lambda change: comparison.problem(change.cell)),
        Column("metric", _metric_name, is_text=True),
        Column(f"run {comparison.last.numbers[0]}", lambda change: _value_data(change)[0]),
        Column(f"run {comparison.last.numbers[1]}", lambda change: _value_data(change)[1]),
    ]
    if not all(change.is_fact for change in changes):
        columns.append(Column("change", _change_datum))
    return SmallTable.of(
        caption, "variant", columns, changes, lambda change: Row(comparison.variant(change.cell))
    )


def _metric_name(change: MetricChange) -> Datum:
    metric = label(change.metric)
    return Datum(metric.label, title=metric.hint, css="words")


def _change_datum(change: MetricChange) -> Datum:
    return change_datum(change.newer, change.older, label(change.metric))


def _value_data(change: MetricChange) -> tuple[Datum, Datum]:
    """Texts of both values; of values that rounding would make the same, all digits."""
    unit, values = label(change.metric).unit, (change.older, change.newer)
    older, newer = (Datum.quantity(value, unit, "not measured") for value in values)
    if older.text == newer.text:
        older, newer = (Datum(f"{value:.15g}", numbers.raw(value)) for value in values)
    return older, newer


def _retuned_words(operation: Retuned, *, alone: bool) -> str:
    """Changed choices: `autotuner: num_warps 4 → 8`; with the kernel, if there are several."""
    if operation.differing:
        settings = ", ".join(
            f"{name} {_setting(before)} \u2192 {_setting(after)}"
            for name, before, after in operation.differing
        )
    else:
        settings = f"{_choices(operation.older)} \u2192 {_choices(operation.newer)}"
    where = "" if alone and operation.differing else f" {operation.operation}"
    return f"autotuner{where}: {settings}"


def _setting(value: object) -> str:
    return "none" if value is None else str(value)


def _choices(choices: Sequence[TunedChoice]) -> str:
    """Chosen configuration: the name of its maker where it has one, and its settings."""
    names = (" ".join((choice.choice, config_words(choice.config))).strip() for choice in choices)
    return " and ".join(name or "one configuration" for name in names) or "no such kernel"


def _metric_words(change: MetricChange) -> str:
    name = label(change.metric).label
    if change.is_fact:
        older, newer = _value_data(change)
        return f"{name} {older.text} \u2192 {newer.text}"
    return f"{name} {_change_datum(change).text}"


# ---- words and colours ---------------------------------------------------------------------------


_VERDICT_CSS = {Verdict.FASTER: "good", Verdict.SLOWER: "bad", Verdict.SAME: "same"}
"""The symbol before the word and its colour come with the class."""

PROGRAM_WORDS: Mapping[ProgramRelation, str] = {
    ProgramRelation.SAME_KEY: "unchanged",
    ProgramRelation.SAME_CODE: "same machine code",
    ProgramRelation.SAME_TORCH: "same version of torch",
    ProgramRelation.SAME_SOURCE: "same source and torch",
    ProgramRelation.FILES_EDITED: "files edited; taken to be the same",
    ProgramRelation.RETUNED: "tuned differently",
    ProgramRelation.CHANGED: "changed",
    ProgramRelation.UNKNOWN: "not known",
}

FIELD_WORDS: Mapping[str, str] = {
    "experiment": "Experiment",
    "baseline": "Baseline",
    "overrides": "Settings by --set",
    "spec": "Experiment file",
    "variables": "Environment variables",
    "git_dirty": "Uncommitted changes",
    **{
        field: f"{heading} ({unit})" if unit else heading
        for field, (heading, unit) in ENVIRONMENT_WORDS.items()
    },
}

MACHINE_WORDS: Mapping[Machines, str] = {
    Machines.SAME: "same GPU",
    Machines.OTHER_CHIP: "two GPUs of the same model",
    Machines.SAME_MODEL: "same model; whether the same chip was not recorded",
    Machines.DIFFERENT: "different machines",
}


def field_word(field: str) -> str:
    """Label of a field that differs between runs."""
    kind, _, file = field.partition(" ")
    return f"Source {file}" if kind == "source" else FIELD_WORDS.get(field, field)


def ratio_words(step: RunStep) -> str:
    """`run 2 ÷ run 1`: right in whatever order the runs were given."""
    first, second = step.numbers
    return f"run {second} \u00f7 run {first}"


NO_VERDICT = "no verdict"


def verdict_word(change: CellChange) -> str:
    """The verdict, of `same` with its margin; `no verdict` where none was given."""
    if change.verdict is None:
        return NO_VERDICT
    is_same = change.verdict is Verdict.SAME
    margin = f" within \u00b1{percent(change.judgement.margin)}" if is_same else ""
    return f"{change.verdict.word.lower()}{margin}"


def verdict_datum(change: CellChange) -> Datum:
    """The verdict as word, symbol and colour; its reason on hover."""
    css = "absent" if change.verdict is None else _VERDICT_CSS.get(change.verdict, "absent")
    return Datum(verdict_word(change), title=reason_words(change), css=f"outcome {css}")


def reason_words(change: CellChange) -> str:
    """The reason for a verdict, or for none, as a clause."""
    if change.refused_words:
        return change.refused_words
    judged = change.judgement
    margin = f"\u00b1{percent(judged.margin)}"
    blocks = f"{judged.blocks_older} and {judged.blocks_newer} blocks"
    detectable = judged.detectable
    likely = "" if numbers.is_missing(detectable) else f"; would likely see {percent(detectable)}"
    clauses = {
        BetweenRunsReason.DECIDED: f"beyond {margin}",
        BetweenRunsReason.DECIDED_BY_TIME: f"beyond {margin}; the clock is not known",
        BetweenRunsReason.WITHIN_MARGIN: f"with its whole interval{likely}",
        BetweenRunsReason.FEW_BLOCKS: (
            f"{blocks}; a verdict needs {FEWEST_BLOCKS} or more in each run"
        ),
        BetweenRunsReason.MORE_BLOCKS_NEEDED: f"{blocks} do not tell it from {margin}{likely}",
        BetweenRunsReason.MANY_COMPARISONS: (
            "would stand alone, but not as one of so many comparisons"
        ),
        BetweenRunsReason.WIDE_MARGIN: (
            f"within {margin}: too wide a margin to call two durations the same"
        ),
        BetweenRunsReason.CLOCK: (
            f"the SM clock differs by up to {percent(judged.clock_floor)} between the runs"
        ),
        BetweenRunsReason.CONTROLS_MOVED: (
            f"unchanged programs vary by {percent(judged.control_floor)} between the runs"
        ),
        BetweenRunsReason.FEW_CONTROLS: (
            "too few unchanged programs of such a duration: offsets between sessions of up to "
            f"{percent(judged.session_floor)} are not seen"
        ),
        **{BetweenRunsReason(reason): words for reason, words in LAUNCH_WORDS.items()},
        BetweenRunsReason.NO_CONTROL: "no baseline that is the same program in both runs",
        BetweenRunsReason.NOT_MEASURED: "no correct duration in one of the runs",
        BetweenRunsReason.CONTROL: "the baseline: its own shift between the runs",
    }
    return clauses[judged.reason]
