"""What takes most time in a trace, on the console."""

from __future__ import annotations

import pandas as pd
from rich.console import RenderableType

from profiler.render.console.terminal import Paragraph, TextTable, plain
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_MOST_LINES = 20
_LONGEST_NAME = 60
_REST = "take less time"
_WHAT_NEXT = (
    "profiler capture TRACE -o FOLDER says which of these can be made again from a trace of "
    "torch.profiler with record_shapes=True, and makes an experiment of them. profiler capture "
    "-o FOLDER -- python PROGRAM records all operators that launch these, as they are called."
)


def ranks_table(file: str, ranks: pd.DataFrame) -> tuple[RenderableType, ...]:
    """Table of the first rows of `ranked_work`, and how much a live capture would record."""
    shown = TextTable(f"{file}: what takes most time")
    shown.add_columns("name", name=True)
    shown.add_columns("live capture")
    shown.add_columns("calls", "time", "share", right=True)
    for row in ranks.head(_MOST_LINES).to_dict("records"):
        name, capture = plain(shorten(str(row["name"]), _LONGEST_NAME)), plain(row["capture"])
        share = f"{100 * row['share']:.1f}\u202f%"
        shown.add_row(name, capture, str(row["calls"]), numbers.show(row["total_ns"], "ns"), share)
    shown.add_rest_caption(max(0, len(ranks) - _MOST_LINES), _REST)
    return shown, Paragraph(_WHAT_NEXT)
