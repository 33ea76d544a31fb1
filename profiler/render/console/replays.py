"""The replay of a search as a table and lines for the terminal."""

from __future__ import annotations

from rich.table import Table

from profiler.search.replay import RecordedSpace, ReplaySummary, TargetSummary


def replay_table(summary: ReplaySummary, recorded: RecordedSpace) -> Table:
    """Best so far by number of evaluations: median over the seeds."""
    table = Table(title="Best so far, median over the seeds", title_justify="left")
    table.add_column("evaluations", justify="right")
    table.add_column("best, ms", justify="right")
    table.add_column("of the best of all", justify="right")
    for count, share in summary.best_so_far:
        if share is None:
            table.add_row(str(count), "all failed", "")
        else:
            table.add_row(str(count), f"{recorded.best_ms / share:.4g}", f"{100 * share:.1f} %")
    return table


def replay_lines(
    name: str, strategy: str, recorded: RecordedSpace, summary: ReplaySummary, seeds: int
) -> tuple[str, ...]:
    """Space, evaluations to each share of the best, and what a proposal cost."""
    lines = [
        f"{name}: {len(recorded.space)} configurations, {recorded.failed} of them failed; "
        f"the best takes {recorded.best_ms:.4g} ms."
    ]
    if recorded.unrecorded or recorded.foreign:
        lines.append(
            f"Left out: {recorded.unrecorded} valid configurations without a record, "
            f"{recorded.foreign} records that the space does not have."
        )
    if recorded.recorded_again:
        again = recorded.recorded_again
        lines.append(
            f"{again} {'record is' if again == 1 else 'records are'} of configurations that have "
            "an earlier one: the last of each counts."
        )
    lines += [_target_line(strategy, target, seeds) for target in summary.targets]
    lines.append(
        f"Proposals: {summary.invalid} invalid, {summary.repeated} repeated; "
        f"{summary.median_proposal_ms:.2f} ms each in the median, at most "
        f"{summary.longest_proposal_ms:.1f} ms."
    )
    return tuple(lines)


def _target_line(strategy: str, target: TargetSummary, seeds: int) -> str:
    share = f"{100 * target.share:.0f} % of the best"
    if seeds == 1:
        count = target.median_evaluations
        return (
            f"{strategy} did not reach {share}."
            if count is None
            else f"{strategy} reached {share} after {count:.0f} evaluations."
        )
    median = target.median_evaluations
    words = "fewer than half of them" if median is None else f"{median:g} evaluations in the median"
    return f"{strategy} reached {share} with {target.reached} of {seeds} seeds; {words}."
