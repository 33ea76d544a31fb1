"""A history on the console: the newest run's control, and every change of a level."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from profiler.history.trends import History, find_control
from profiler.render.console.terminal import columns, plain, table
from profiler.render.words.history import change_words, control_words, headline

MOST_LISTED = 30


def history_tables(history: History) -> RenderableType:
    """Headline, control, and the cells that changed, the newest changes first."""
    parts: list[RenderableType] = [
        Text(headline(history)),
        Text(control_words(history, find_control(history))),
    ]
    changed = sorted(
        ((change, trend) for trend in history.trends for change in trend.changes),
        key=lambda pair: -pair[0].first,
    )
    if changed:
        listed = table(f"{history.experiment} on {history.machine}")
        columns(listed, "variant", "problem", "change")
        for change, trend in changed[:MOST_LISTED]:
            words = change_words(history, change)
            listed.add_row(plain(trend.variant), plain(trend.problem), plain(words))
        parts.append(listed)
    if len(changed) > MOST_LISTED:
        parts.append(Text(f"{len(changed) - MOST_LISTED} older changes are on the page."))
    return Group(*parts)
