"""The page of `profiler compare` with its first lines: what became slower or faster, what else."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from profiler.comparison.changes import MOVED_FROM
from profiler.comparison.compare import RunComparison
from profiler.comparison.document import comparison_document
from profiler.comparison.programs import EditedFile
from profiler.comparison.steps import CodeGroup, RunStep
from profiler.model import FEWEST_BLOCKS, MARGIN_PCT, Verdict
from profiler.notices import counted, first_names
from profiler.render.console.tables import SmallTextTable, answer_lines
from profiler.render.console.terminal import Paragraph, plain
from profiler.render.figures import styles
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Mark
from profiler.render.html import notice_rows, render
from profiler.render.index import IndexEntry, machine_name
from profiler.render.runs.heats import grid_parts, grid_sentences, variant_heat
from profiler.render.runs.history import (
    VERDICT_ROLES,
    durations_table,
    history_figure,
    history_marks,
    runs_table,
)
from profiler.render.runs.rows import (
    MACHINE_WORDS,
    PROGRAM_WORDS,
    change_table,
    field_word,
    metric_table,
    ratio_words,
)
from profiler.render.words import numbers
from profiler.render.words.sentences import Card, Sentence, sentence_of, spoken, strong

MOST_DOTS = 18
MOST_COUNTERS = 300


def render_comparison(comparison: RunComparison) -> str:
    """Render a comparison as HTML: the step to the newest run in full, all runs as a history."""
    step = comparison.last
    first, *more = sentences(comparison)
    step_runs = (comparison.runs[step.older], comparison.runs[step.newer])
    older, newer = step.numbers
    counters = step.moved_counters
    parts = {
        "title": _title(comparison),
        "older": older,
        "newer": newer,
        "names": [run.name for run in step_runs],
        "moments": [run.report.execution.created for run in step_runs],
        "gpus": dict.fromkeys(
            run.report.environment.processor or numbers.MISSING for run in step_runs
        ),
        "runs": comparison.runs,
        "banner": step.refused_words,
        "machines": MACHINE_WORDS[step.machines],
        "headline": first,
        "sentences": (*more, *grid_sentences(comparison)),
        "cards": cards(comparison),
        "notice_rows": notice_rows(comparison.notices),
        "runs_table": runs_table(comparison),
        "ratio": ratio_words(step),
        "edited_files": step.edited_files,
        "code_apart": len(step.by_code) > 1,
        "control": comparison.variant_name(step.control),
        "only_older": [_cell_name(cell, comparison) for cell in step.only_older],
        "only_newer": [_cell_name(cell, comparison) for cell in step.only_newer],
        "delta": f"{MARGIN_PCT:.0f}\u202f%",
        "fewest_blocks": FEWEST_BLOCKS,
        "programs": [(PROGRAM_WORDS[program], count) for program, count in step.programs.items()],
        "json": "data:application/json;base64,"
        + base64.b64encode(json.dumps(comparison_document(comparison)).encode()).decode(),
        "table": change_table(comparison),
        "grids": grid_parts(comparison),
        # Variants by hundreds of problems could not be read: grids have heat maps of their own.
        "heat": None if comparison.grids is not None else variant_heat(comparison),
        "first": _changes_chart(comparison),
        "history": _history_chart(comparison),
        "durations": durations_table(comparison) if len(comparison.steps) > 1 else None,
        "facts": metric_table("Static facts before and after", step.changed_facts, comparison),
        "counters": metric_table("Counters before and after", counters[:MOST_COUNTERS], comparison),
        "left_out_counters": max(0, len(counters) - MOST_COUNTERS),
        "moved_from": f"{100 * MOVED_FROM:.0f}\u202f%",
    }
    return render("between_runs.html", parts)


def page_of_comparison(comparison: RunComparison, title: str, file: str) -> IndexEntry:
    """Entry for the page of a comparison of runs."""
    reports = [run.report for run in comparison.runs]
    return IndexEntry(
        file=file,
        title=title,
        machines=tuple(machine_name(report.environment) for report in reports),
        dates=tuple(report.execution.created for report in reports),
        answer=spoken(headline(comparison)),
    )


def _title(comparison: RunComparison) -> str:
    names = " and ".join(dict.fromkeys(run.report.experiment.name for run in comparison.runs))
    return f"{names}: {comparison.runs[0].name} \u2192 {comparison.runs[-1].name}"


def _cell_name(cell: str, comparison: RunComparison) -> str:
    return f"{comparison.variant(cell)}, {comparison.problem(cell)}"


# ---- figures -------------------------------------------------------------------------------------


def _changes_chart(comparison: RunComparison) -> Chart | None:
    """Cells that changed most with their intervals: those with a verdict first."""
    step = comparison.last
    measured = [
        change
        for change in step.cells.values()
        if not math.isnan(change.ratio) and not change.is_control
    ]
    if not measured:
        return None
    by_change = sorted(
        measured, key=lambda change: (not change.decided, -abs(math.log(change.ratio)))
    )
    shown_changes = sorted(by_change[:MOST_DOTS], key=lambda change: -change.ratio)
    marks = [
        Mark(
            _cell_name(change.cell.id, comparison),
            *(change.ratio, change.ratio_low, change.ratio_high),
            role=VERDICT_ROLES.get(change.verdict, "other"),
            variant=comparison.mark(change.cell.id),
        )
        for change in shown_changes
    ]
    quantity = "Duration" if step.control is None else "Duration relative to the baseline"
    reading = "Bars: 95\u202f% intervals."
    if step.refused is None:
        reading = f"Orange: slower, blue: faster, grey: neither. {reading}"
    if len(measured) > MOST_DOTS:
        reading += f" {len(measured) - MOST_DOTS} more in the table."
    figure = figures.dots(marks, f"{quantity}, {ratio_words(step)}", styles.MUTED)
    return make_chart("first", "Cells that changed most", reading, figure)


def _history_chart(comparison: RunComparison) -> Chart | None:
    if len(comparison.runs) <= 2:
        return None
    panels = history_marks(comparison)
    if not panels:
        return None
    ticks = [str(number + 1) for number in range(len(comparison.runs))]
    reading = (
        "A panel for each of the cells that moved most: median duration in each run, oldest first "
        "(numbers as in the table of runs), with its 95\u202f% interval. Steps are judged by the "
        "ratio to the baseline, not by the duration that is drawn."
    )
    return make_chart("history", "Duration over the runs", reading, history_figure(panels, ticks))


# ---- the first lines: what became slower or faster, judged by what -------------------------------


_MOST_NAMED = 3
_DECIDED = (Verdict.SLOWER, Verdict.FASTER)


def sentences(comparison: RunComparison) -> tuple[Sentence, ...]:
    """Answer in a few sentences: the headline, then what it rests on."""
    step = comparison.last
    rest = () if step.refused is not None else map(_rest_text, step.by_code)
    texts = (*rest, _changed_text(comparison), _retuned_text(step), _drawn_text(comparison))
    return (headline(comparison), *map(sentence_of, filter(None, texts)))


def headline(comparison: RunComparison) -> Sentence:
    """The answer in one sentence: how many cells became slower and faster, and the most of each.

    Cells whose code changed are counted apart from the others.
    """
    step = comparison.last
    if step.refused is not None:
        refused = f"{strong('No verdict on durations')}: {step.refused_words}. "
        return sentence_of(refused + _mean_text(step))
    if step.mean_ratio is None:
        return sentence_of(_mean_text(step))
    if all(change.is_control for change in step.cells.values()):
        return sentence_of("The runs have no cell but the baseline's in common: nothing is judged.")
    groups = (_decided_counts(group, comparison) for group in step.by_code)
    return sentence_of(f"{'; '.join(groups)}.")


def _decided_counts(group: CodeGroup, comparison: RunComparison) -> str:
    """Numbers of slower and faster cells of a group, with the cell that changed most of each."""
    counts = []
    for verdict in _DECIDED:
        cells = group.with_verdict(verdict)
        verb = "are" if len(cells) > 1 else "is"
        count = f"{len(cells) or 'none'} {verb} {strong(verdict.word.lower())}"
        if cells:
            most = cells[0]
            between = numbers.interval(most.ratio_low, most.ratio_high)
            ratio = f"{numbers.ratio(most.ratio)} {between}".strip()
            count += f" (most: {strong(ratio)}, {_cell_place(most.cell.id, comparison)})"
        counts.append(count)
    return (
        f"{'of' if group.other_code is False else 'Of'} {_cells_of(group)}, {' and '.join(counts)}"
    )


def _cell_place(cell: str, comparison: RunComparison) -> str:
    return f"{comparison.variant(cell)} at {comparison.problem(cell)}"


def _cells_of(group: CodeGroup) -> str:
    """`4 cells whose code changed`: the judged cells of a group."""
    return f"{counted(group.judged, 'cell')}{_CODE_CLAUSES[group.other_code]}"


_CODE_CLAUSES = {True: " whose code changed", False: " whose code did not change", None: ""}
"""By `CodeGroup.other_code`."""


def _changed_text(comparison: RunComparison) -> str:
    """Sentence on the variants whose code changed; empty without any."""
    step = comparison.last
    changed = [comparison.variant_name(variant) for variant in step.changed_variants]
    files = ", ".join(file.name for file in step.edited_files)
    names = strong(first_names(changed, _MOST_NAMED))
    return f"The code of {names} changed{f' (edited: {files})' if files else ''}." * bool(changed)


def _mean_text(step: RunStep) -> str:
    mean = step.mean_ratio
    if mean is None:
        return "No cell was measured in both runs."
    first, second = step.numbers
    return (
        f"Run {second}'s durations are {numbers.ratio(mean.mean)} those of run {first} "
        f"(geometric mean over {mean.count} cells; from {numbers.ratio(mean.smallest)} to "
        f"{numbers.ratio(mean.largest)})."
    )


def _rest_text(group: CodeGroup) -> str:
    """Sentence on the cells of a group that are neither slower nor faster; empty without any."""
    parts = [
        f"{count} {clause[count > 1]}"
        for verdict, clause in (
            (Verdict.SAME, ("is the same within its margin", "are the same within their margins")),
            (Verdict.UNCLEAR, ("is unclear", "are unclear")),
            (
                Verdict.NO_DATA,
                tuple(f"{have} no correct duration in one of the runs" for have in ("has", "have")),
            ),
        )
        if (count := group.counts.get(verdict, 0))
    ]
    others = f"Of the others{_CODE_CLAUSES[group.other_code]}"
    return f"{others}, {', '.join(parts)}." if parts else ""


def _retuned_text(step: RunStep) -> str:
    """Sentence on the cells that a compiler's autotuner tuned differently; empty without any."""
    if not step.retuned:
        return ""
    total = f" of {len(step.cells)} cells"
    decided = [change for change in step.cells.values() if change.decided]
    among = sum(bool(change.retuned) for change in decided)
    if decided:
        total += f", {among} of the {len(decided)} slower or faster ones among them"
    return f"The compiler's autotuner chose differently at {strong(str(len(step.retuned)))}{total}."


def _drawn_text(comparison: RunComparison) -> str:
    """Sentence on how far tuned cells differ over the runs; empty without any."""
    if comparison.drawn_spread is None:
        return ""
    cell, spread = comparison.drawn_spread
    return (
        "Each run is a draw of the autotuner: over the runs, ratios of tuned cells span "
        f"{strong(f'up to {numbers.ratio(spread)}')} ({_cell_place(cell, comparison)})."
    )


def cards(comparison: RunComparison) -> tuple[Card, ...]:
    """Four cards: slower, faster, what it is judged by, what else changed."""
    return (
        _count_card("What became slower?", comparison, Verdict.SLOWER),
        _count_card("What became faster?", comparison, Verdict.FASTER),
        _control_card(comparison),
        _changes_card(comparison),
    )


def _count_card(question: str, comparison: RunComparison, verdict: Verdict) -> Card:
    if not comparison.last.all.judged:
        return Card(question, "not judged", "The numbers stand below, without verdicts.")
    changes = comparison.last.all.with_verdict(verdict)
    variants = list(dict.fromkeys(comparison.variant(change.cell.id) for change in changes))
    return Card(
        question,
        counted(len(changes), "cell") if changes else "nothing shown",
        first_names(variants, _MOST_NAMED),
    )


def _control_card(comparison: RunComparison) -> Card:
    """The shift of the baseline itself, which all ratios are relative to."""
    question, step = "What is it judged by?", comparison.last
    if step.refused is not None:
        return Card(question, "nothing", f"{step.refused_words}: durations as they are")
    if step.control is None:
        return Card(question, "no control", "No baseline is the same program in both runs.")
    control, shift = comparison.variant_name(step.control), step.control_shift
    if shift is None:
        return Card(question, control, "The baseline was not measured in both runs.")
    span = f"{numbers.ratio(shift.smallest)} to {numbers.ratio(shift.largest)}"
    detail = (
        f"the baseline: {numbers.ratio(shift.mean)} its duration in run {step.numbers[0]} by "
        f"itself ({span}); ratios leave that out"
    )
    without, total = step.uncontrolled_problems
    if without:
        detail += f"; at {without} of {total} problems it is another program, and controls nothing"
    return Card(question, control, detail)


def _changes_card(comparison: RunComparison) -> Card:
    fields, step = list(comparison.differences), comparison.last
    changed = [comparison.variant_name(variant) for variant in step.changed_variants]
    different = ", ".join(field_word(field) for field in fields) or "nothing that was recorded"
    answer = f"{counted(len(changed), 'variant')} changed"
    if step.edited_variants:
        answer += f", of {len(step.edited_variants)} it is not known"
    if step.retuned:
        answer += f", {counted(len(step.retuned), 'cell')} tuned differently"
    code = f"Code: {first_names(changed, _MOST_NAMED)}. " if changed else ""
    return Card("What else differs?", answer, f"{code}Between the runs: {different}.")


# ---- the terminal --------------------------------------------------------------------------------


_MOST_LINES = 24
"""Lines of a diff."""


def comparison_tables(comparison: RunComparison) -> RenderableType:
    """Show what differs between the runs, the cells that changed most, and the answer."""
    tables = [runs_table(comparison)]
    if len(comparison.steps) > 1:
        tables.append(durations_table(comparison))
    tables.append(change_table(comparison))
    return Group(
        answer_lines([*sentences(comparison), *grid_sentences(comparison)]),
        *map(SmallTextTable, tables),
        *_edits(comparison.last.edited_files),
    )


def _edits(files: Sequence[EditedFile]) -> Iterator[RenderableType]:
    """The beginning of the diff of each source file that was edited."""
    for file in files:
        if file.diff:
            yield Paragraph(f"Edited: {file.name}", "bold")
            yield plain("\n".join(file.diff[:_MOST_LINES]))
            if (more := len(file.diff) - _MOST_LINES + file.left_out) > 0:
                yield Paragraph(f"{more} more lines; the page has more of them.", "dim")
            yield Text()
