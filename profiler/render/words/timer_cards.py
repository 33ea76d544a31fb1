"""The four cards where timers are what a run compares."""

from __future__ import annotations

from profiler.findings.findings import Findings
from profiler.findings.kinds.timers import TimerComparison
from profiler.render.tables.timers import Furthest, timer_table
from profiler.render.words import numbers
from profiler.render.words.answer import Card
from profiler.render.words.counters import nearest_roof_words


def timer_cards(findings: Findings, timers: TimerComparison) -> tuple[Card, ...]:
    """Which timer is nearest to the primary one, how far others are, on what, and why."""
    table = timer_table(findings)
    furthest = table.furthest if table else None
    cells = timers.medians["cell"].nunique()
    return (
        _nearest_card(timers),
        _furthest_card(timers, furthest),
        Card("Is it real", f"{cells} cells", "medians over blocks; no verdict mixes timers"),
        _why_card(findings, furthest),
    )


def _nearest_card(timers: TimerComparison) -> Card:
    reference = timers.title(timers.reference)
    if timers.nearest is None:
        return Card(f"Nearest to {reference}", "nothing", "no cell was timed twice")
    return Card(
        f"Nearest to {reference}",
        timers.title(timers.nearest),
        f"{_mean_words(timers, timers.nearest)} the time by {reference}",
    )


def _furthest_card(timers: TimerComparison, furthest: Furthest | None) -> Card:
    """Where any timer is furthest from ncu; without ncu, how far each is in the mean."""
    if furthest is not None:
        return Card("By how much", furthest.ratio, f"by {furthest.timer}, {furthest.where}")
    others = [name for name in timers.collectors if name != timers.nearest]
    means = (f"{timers.title(name)} {_mean_words(timers, name)}" for name in others)
    return Card("By how much", f"{len(others)} others", "; ".join(means))


def _mean_words(timers: TimerComparison, collector: str) -> str:
    """Geometric mean of a timer's ratios, with the least and the most."""
    rows = {row["collector"]: row for row in timers.overall.to_dict("records")}
    row = rows[collector]
    ends = f"{numbers.ratio(row['least'])} to {numbers.ratio(row['most'])}"
    return f"{numbers.ratio(row['mean'])} ({ends})"


def _why_card(findings: Findings, furthest: Furthest | None) -> Card:
    """The parts of the largest error where they are known, else what differs between timers."""
    answer = "what each one times"
    detail = "kernels alone, or launches and gaps too; caches and clocks differ"
    if furthest is not None and furthest.host:
        answer, detail = furthest.host, furthest.caches
    return Card("Why", answer, "; ".join(filter(None, [detail, _roof(findings)])))


def _roof(findings: Findings) -> str:
    """Clause on the nearest roof of the leader at the problem that takes longest; empty without."""
    problem, row = findings.ranking.largest_problem, findings.ranking.leader
    if problem is None or row is None:
        return ""
    return nearest_roof_words(findings, row.variant, problem, whose=row.variant.label)
