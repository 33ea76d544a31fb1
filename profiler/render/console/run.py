"""Tables of a run for the terminal: the one that its answer is about, or all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from profiler.findings.cell_numbers import FINAL, Value
from profiler.findings.findings import Findings
from profiler.findings.kinds.timers import TimerComparison
from profiler.findings.programs import Programs
from profiler.findings.ranking import VariantRank
from profiler.findings.verdicts import PairVerdict
from profiler.findings.winners import Winner
from profiler.model import Outcome, Problem, Variant, Verdict
from profiler.planning.page_kinds import load_part
from profiler.planning.problem_names import problem_key
from profiler.render.console.terminal import TextTable
from profiler.render.kinds.timeline import timeline_tables
from profiler.render.tables.failures import FailureGroup, failure_groups
from profiler.render.tables.method import variants_text
from profiler.render.tables.timers import overall_table
from profiler.render.words import numbers
from profiler.render.words.comparisons import ties_words
from profiler.render.words.verdicts import percent, verdict_counts, verdict_key, word_of

_TOP = 10
_MOST_REFERENCES = 3
_MOST_FAILED = 20
_FEW_FAILED = 6
_SHORT = 12
"""Characters of a name that heads have room for."""
_STYLES: Mapping[Verdict, str] = {Verdict.FASTER: "blue", Verdict.SLOWER: "yellow"}
"""Blue and orange as in the page; the word says it, too."""


def run_tables(findings: Findings, *, verbose: bool) -> list[RenderableType]:
    """The table that the answer is about, and what failed; `verbose`: every table."""
    programs = findings.programs
    parts: list[RenderableType] = []
    kind_tables, timelines = findings.report.settings.page_kind.console, timeline_tables(findings)
    if kind_tables:
        parts += load_part(kind_tables)(findings)
    elif findings.timers is not None and findings.timers.compared and not verbose:
        parts.append(_timers_table(programs, findings.timers))
    elif findings.ranking.winners and (verbose or not timelines):
        parts += _variant_tables(findings, verbose=verbose)
    parts += timelines
    if verbose and any(name.shortened for name in programs.names.by_variant.values()):
        parts.append(_names_table(programs))
    if groups := failure_groups(programs):
        parts.append(_failed_table(programs, groups, _MOST_FAILED if verbose else _FEW_FAILED))
    return parts


def _timers_table(programs: Programs, timers: TimerComparison) -> TextTable:
    """Table of the ratio of each timer to the first, over all cells."""
    reference = timers.title(timers.reference)
    rich_table = TextTable(f"Times by other timers \u00f7 that by {reference}, over all cells")
    rich_table.add_columns("timer", name=True)
    rich_table.add_columns("mean", right=True)
    rich_table.add_columns("least", right=True)
    rich_table.add_columns("at", drop=2)
    rich_table.add_columns("most", right=True)
    rich_table.add_columns("at", drop=1)
    for row in overall_table(programs, timers).lines:
        rich_table.add_row(row.name, *(datum.text for datum in row.data[:-1]))
    rich_table.caption = "Mean: the geometric one. The versions are in the page."
    return rich_table


def _variant_tables(findings: Findings, *, verbose: bool) -> list[TextTable]:
    """Variants, best first; `verbose`: after the winner of each problem."""
    alone = findings.programs.problems[0] if len(findings.programs.problems) == 1 else None
    best_first = _problem_table(findings, alone) if alone else _top_table(findings)
    return [_winners_table(findings), best_first] if verbose else [best_first]


def _problem_table(findings: Findings, problem: Problem) -> TextTable:
    """Variants at the only problem of a run."""
    baseline = findings.programs.baseline
    rows = findings.numbers.sorted_at(problem, findings.numbers.primary.name)
    shown_variants = [
        (variant, value)
        for number, (variant, value) in enumerate(rows)
        if value.present and (number < _TOP or variant == baseline)
    ]
    rich_table = TextTable(f"At {problem.name}")
    rich_table.add_columns("variant", name=True)
    _add_number_columns(rich_table, findings, drop=0)
    for variant, value in shown_variants:
        name = _name_with_role(findings.programs, variant)
        rich_table.add_row(name, *_numbers(findings, variant, problem, value))
    winner = findings.ranking.deciding_winners.get(problem.id)
    if winner:
        rich_table.caption = _caption(findings.programs, [winner])
    if winner and winner.final and any(value.source != FINAL for _, value in shown_variants):
        rich_table.caption += " Of variants that were not confirmed: of the timing blocks."
    rich_table.add_rest_caption(len(rows) - len(shown_variants), "variant")
    return rich_table


def _add_number_columns(rich_table: TextTable, findings: Findings, drop: int) -> None:
    """Columns for `_numbers`; `drop`: that of the verdict, which goes after interval and ±."""
    rich_table.add_columns(findings.numbers.primary.label, right=True)
    rich_table.add_columns("\u00b1", right=True, drop=drop + 2)
    rich_table.add_columns(_ratio_head(findings.programs), right=True)
    rich_table.add_columns("interval", right=True, drop=drop + 1)
    rich_table.add_columns("verdict", drop=drop)


def _numbers(
    findings: Findings, variant: Variant, problem: Problem, value: Value
) -> tuple[str | Text, ...]:
    """Median, half of its interval, ratio to the baseline, interval of that, and the verdict.

    `value` has the median: of a winner it may be that of the confirmation.
    """
    primary = findings.numbers.primary
    of_ratio = findings.numbers.at(variant, problem, primary.name)
    return (
        numbers.show(value.median, primary.unit),
        numbers.half_width(value.median, value.low, value.high),
        numbers.ratio(of_ratio.ratio),
        numbers.interval(of_ratio.ratio_low, of_ratio.ratio_high),
        _verdict(findings.verdicts.at(variant, problem)),
    )


def _axes(programs: Programs) -> str:
    """Parameters that short names of problems are made of, in brackets; empty with their keys."""
    names = problem_key(programs.problems)
    return f" ({names})" if names else ""


def _ratio_head(programs: Programs) -> str:
    """Head of ratios: the name of the baseline where it is short."""
    if programs.baseline is None:
        return "ratio"
    name = programs.baseline.label
    return f"\u00f7 {name if len(name) <= _SHORT else 'baseline'}"


def _name_with_role(programs: Programs, variant: Variant) -> str:
    """Name of a variant, and whether it is what others are compared with."""
    if variant == programs.baseline:
        return f"{variant.label} (baseline)"
    return f"{variant.label} (reference)" if variant.id in programs.references else variant.label


def _winners_table(findings: Findings) -> TextTable:
    programs = findings.programs
    rich_table = TextTable(f"Winner per problem{_axes(programs)}")
    rich_table.add_columns("problem", fixed=True)
    rich_table.add_columns("winner", name=True)
    _add_number_columns(rich_table, findings, drop=1)
    rich_table.add_columns("against the rest", drop=4)
    best, tried = findings.ranking.deciding_winners, _tried_problems(programs)
    for problem in programs.problems:
        winner = best.get(problem.id)
        if winner is None:
            if problem.id in tried:
                rich_table.add_row(problem.name, Text("no correct result", style="red"))
            continue
        variant = winner.cell.variant
        row = _numbers(findings, variant, problem, winner.value)
        rich_table.add_row(problem.name, variant.label, *row, _tie_words(winner))
    rich_table.caption = _caption(programs, list(best.values()))
    unmeasured = len(programs.problems) - len(best.keys() | tried)
    rich_table.add_rest_caption(unmeasured, "problem", ": not measured")
    return rich_table


def _tried_problems(programs: Programs) -> set[str]:
    """Problems (ids) of which any cell was measured, or failed."""
    return {
        cell.problem.id
        for cell in programs.cells
        if programs.status(cell).outcome is not Outcome.NOT_MEASURED
    }


def _verdict(pair: PairVerdict) -> Text:
    if pair.verdict is None:
        return Text(numbers.MISSING)
    return Text(word_of(pair), style=_STYLES.get(pair.verdict, ""))


def _tie_words(winner: Winner) -> str:
    """Comparison of a winner with the other variants of its problem."""
    if winner.best:
        return "best"
    if ties := ties_words(winner):
        return ties
    return "alone" if not winner.rival_verdicts else "lowest median, not judged"


def _caption(programs: Programs, winners: Sequence[Winner]) -> str:
    """Source of the numbers: confirmation or timing blocks, with the number of blocks."""
    final = sum(winner.final for winner in winners)
    if not final:
        is_missing = bool(programs.plan.problems_to_confirm)
        return f"Numbers of the timing blocks{': nothing was confirmed' if is_missing else ''}."
    blocks = sorted({winner.value.n for winner in winners if winner.final})
    final_words = "" if final == len(winners) else f" at {final} of {len(winners)} problems"
    span = " to ".join(map(str, blocks[:: max(1, len(blocks) - 1)]))
    return (
        f"Numbers of the confirmation{final_words} ({span} "
        "blocks, separate from those that selected the variants)."
    )


def _top_table(findings: Findings) -> TextTable:
    """The first variants over all problems, and what they are compared with."""
    rows = _top_ranks(findings)
    rich_table = TextTable(_top_title(findings.programs, rows), _verdict_caption(findings))
    rich_table.add_columns("variant", name=True)
    rich_table.add_columns(_ratio_head(findings.programs), right=True)
    rich_table.add_columns("worst", right=True, drop=3)
    rich_table.add_columns("at", drop=4)
    rich_table.add_columns("verdicts", drop=1)
    rich_table.add_columns("not shown slower", right=True, drop=2)
    rich_table.add_columns("worst \u00f7 best", right=True)
    for row in rows:
        total = len(row.planned)
        held = len(findings.ranking.contenders.get(row.variant.id, ()))
        rich_table.add_row(
            _name_with_role(findings.programs, row.variant),
            numbers.ratio(row.geometric_mean),
            numbers.ratio(row.worst[1].ratio if row.worst else None),
            row.worst[0].name if row.worst else "",
            verdict_counts(row.planned_verdicts),
            f"{held} of {total}" if row.slowdowns else numbers.MISSING,
            numbers.ratio(row.worst_slowdown),
        )
    ranked = sum(bool(row.slowdowns) for row in findings.ranking.ranks)
    rich_table.add_rest_caption(ranked - sum(bool(row.slowdowns) for row in rows), "variant")
    return rich_table


def _top_title(programs: Programs, rows: Sequence[VariantRank]) -> str:
    """Title that says over how many problems the means are."""
    total = len(programs.problems)
    fewest = min((len(row.ratios) for row in rows if row.ratios), default=total)
    if fewest == total:
        return f"Geometric means over {total} problems{_axes(programs)}"
    return (
        f"Geometric means over the problems that a variant has, {fewest} to {total}"
        f"{_axes(programs)}"
    )


def _verdict_caption(findings: Findings) -> str:
    margin = percent(findings.report.rules.delta)
    return (
        f"{verdict_key()}, by problem; margin \u00b1{margin}, the noise floor or what sessions "
        "differ by."
    )


def _top_ranks(findings: Findings) -> list[VariantRank]:
    """Ten variants: the first of the rivals in their order, and the references by their means."""
    references = [
        row
        for row in findings.ranking.ranks
        if row.variant.id in findings.programs.references and (row.ratios or row.slowdowns)
    ]
    references = sorted(references, key=lambda row: row.variant != findings.programs.baseline)
    references = references[:_MOST_REFERENCES]
    rivals = [
        row
        for row in findings.ranking.ranks
        if row.variant.id not in findings.programs.references and row.slowdowns
    ]
    rows = rivals[: _TOP - len(references)]
    for reference in references:
        mean = reference.geometric_mean
        ahead = (place for place, row in enumerate(rows) if row.geometric_mean > mean)
        rows.insert(next(ahead, len(rows)), reference)
    return rows


def _names_table(programs: Programs) -> TextTable:
    """Full names of the variants that have a shorter one."""
    rich_table = TextTable("Names in full")
    rich_table.add_columns("name", "in full", name=True)
    for name in programs.names.by_variant.values():
        if name.shortened:
            rich_table.add_row(name.label, name.full)
    return rich_table


def _failed_table(programs: Programs, groups: Sequence[FailureGroup], most: int) -> TextTable:
    failed_count = sum(len(group.cells) for group in groups)
    rich_table = TextTable(f"Failed: {failed_count} of {len(programs.plan.cells)} cells")
    # Several names in one cell of the table are wrapped like any text, or causes had no room.
    rich_table.add_columns("variant", name=all(len(group.variants) == 1 for group in groups[:most]))
    rich_table.add_columns("problem", "outcome", "cause")
    for group in groups[:most]:
        rich_table.add_row(
            variants_text(group.variants),
            group.problems_text,
            Text(group.outcome, style="red"),
            group.cause,
        )
    rich_table.add_rest_caption(sum(len(group.cells) for group in groups[most:]), "failed cell")
    return rich_table
