"""Results of a run as tables for the terminal: winners, all problems together, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from profiler.findings.findings import Findings
from profiler.findings.verdicts import PairVerdict
from profiler.findings.winners import Winner
from profiler.model import Cell, Outcome, Verdict
from profiler.planning.page_kinds import load_part
from profiler.planning.problem_names import problem_key
from profiler.render.console.terminal import add_rest_caption, columns, plain, table
from profiler.render.console.timeline import timeline_tables
from profiler.render.words import numbers
from profiler.render.words.outcomes import OUTCOME_WORDS
from profiler.render.words.ranks import slowdown_words, ties_words
from profiler.render.words.verdicts import counted, percent, verdict_key, word_of

_TOP = 10
_MOST_FAILED = 20
_STYLES: Mapping[Verdict, str] = {Verdict.FASTER: "blue", Verdict.SLOWER: "yellow"}
"""Blue and orange as in the page; the word says it, too."""


def run_tables(findings: Findings) -> list[RenderableType]:
    """The winner of each problem, the variants over all of them, timelines, and what failed."""
    parts: list[RenderableType] = []
    kind_tables = findings.report.page_kind.console
    if kind_tables:
        parts += load_part(kind_tables)(findings)
    elif findings.winners:
        parts.append(_winners_table(findings))
        if len(findings.problems) > 1:
            parts.append(_top_table(findings))
    parts += timeline_tables(findings)
    failed = [cell for cell in findings.distinct_cells if findings.status(cell).outcome.failed]
    if failed:
        parts.append(_failed_table(findings, failed))
    return parts


def _winners_table(findings: Findings) -> Table:
    metric, given = findings.primary, findings.gives_verdicts
    rich_table = table("Winner per problem")
    names = problem_key(findings.problems)
    key = f" ({names})" if names else ""
    columns(rich_table, f"problem{key}", "winner")
    against = f"\u00f7 {findings.baseline.name}" if findings.baseline else "ratio"
    columns(rich_table, metric.label, "\u00b1", against, "interval", right=True)
    columns(rich_table, *(("verdict", "against the rest") if given else ("against the rest",)))
    best, tried = findings.deciding_winners, _tried(findings)
    for problem in findings.problems:
        winner = best.get(problem.id)
        if winner is None:
            if problem.id in tried:
                rich_table.add_row(plain(problem.name), Text("no correct result", style="red"))
            continue
        value = findings.at(winner.cell.variant, problem, metric.name)
        pair = findings.verdict(winner.cell.variant, problem)
        rich_table.add_row(
            plain(problem.name),
            plain(winner.cell.variant.name),
            numbers.show(winner.value.median, metric.unit),
            numbers.half_width(winner.value.median, winner.value.low, winner.value.high),
            numbers.ratio(value.ratio),
            plain(numbers.interval(value.ratio_low, value.ratio_high)),
            *([_verdict(pair)] if given else []),
            plain(_rest(winner)),
        )
    add_rest_caption(
        rich_table, len(findings.problems) - len(best.keys() | tried), "problems: not measured"
    )
    if given:
        caption = _caption(list(best.values()))
        rich_table.caption = f"{rich_table.caption} {caption}" if rich_table.caption else caption
    return rich_table


def _tried(findings: Findings) -> set[str]:
    """Problems (ids) of which any cell was measured, or failed."""
    return {
        cell.problem.id
        for cell in findings.distinct_cells
        if findings.status(cell).outcome is not Outcome.NOT_MEASURED
    }


def _verdict(pair: PairVerdict) -> Text:
    if pair.verdict is None:
        return Text(numbers.MISSING)
    return Text(word_of(pair), style=_STYLES.get(pair.verdict, ""))


def _rest(winner: Winner) -> str:
    """Comparison of a winner with the other variants of its problem."""
    if winner.best:
        return "best"
    if ties := ties_words(winner):
        return ties
    return "alone" if not winner.others else "lowest median, not judged"


def _caption(winners: Sequence[Winner]) -> str:
    """Source of the numbers: confirmation or timing blocks, with the number of blocks."""
    final = sum(winner.final for winner in winners)
    if not final:
        return "Numbers of the timing blocks: nothing was confirmed."
    blocks = sorted({winner.value.n for winner in winners if winner.final})
    of = "" if final == len(winners) else f" at {final} of {len(winners)} problems"
    span = " to ".join(map(str, blocks[:: max(1, len(blocks) - 1)]))
    return (
        f"Numbers of the confirmation{of} ({span} "
        "blocks, separate from those that selected the variants)."
    )


def _top_table(findings: Findings) -> Table:
    given = findings.gives_verdicts
    rich_table = table("Over all problems")
    columns(rich_table, "variant")
    columns(rich_table, "geometric mean", "worst ratio", right=True)
    columns(rich_table, *(("at", "verdicts") if given else ("at",)))
    columns(rich_table, "not shown slower", "at most", right=True)
    rows = [row for row in findings.ranks if row.regret is not None]
    baseline = findings.baseline
    shown = [row for number, row in enumerate(rows) if number < _TOP or row.variant == baseline]
    for row in shown:
        worst = slowdown_words(row.regret.worst) if row.regret else numbers.MISSING
        rich_table.add_row(
            plain(row.variant.name),
            numbers.ratio(row.geometric_mean),
            numbers.ratio(row.worst[1].ratio if row.worst else None),
            plain(row.worst[0].name if row.worst else ""),
            *([counted(row.planned_verdicts)] if given else []),
            f"{len(findings.contenders.get(row.variant.id, ()))} of {len(row.planned)}",
            worst,
        )
    add_rest_caption(rich_table, len(rows) - len(shown), "variants are in the page")
    if given:
        margin = percent(findings.report.rules.delta)
        caption = f"{verdict_key()}, by problem; margin \u00b1{margin} or the noise floor."
        rich_table.caption = f"{rich_table.caption} {caption}" if rich_table.caption else caption
    return rich_table


def _failed_table(findings: Findings, failed: Sequence[Cell]) -> Table:
    rich_table = table(f"Failed: {len(failed)} of {len(findings.report.plan.cells)} cells")
    columns(rich_table, "variant", "problem", "outcome", "cause")
    for cell in failed[:_MOST_FAILED]:
        status = findings.status(cell)
        rich_table.add_row(
            plain(cell.variant.name),
            plain(cell.problem.name),
            Text(OUTCOME_WORDS[status.outcome], style="red"),
            plain(next(iter(status.cause.strip().splitlines()), "")),
        )
    add_rest_caption(rich_table, len(failed) - _MOST_FAILED, "failed cells are in the page")
    return rich_table
