"""Where the seconds of runs went, one above the other on one time axis, as a page with a figure.

    python benchmarks/speed/draw_seconds.py PAGE TITLE=seconds.json [TITLE=seconds.json ...]

Each file is the `seconds.json` of a run folder; rows are its processes, as on its own page.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2]))

from profiler.model import Span  # noqa: E402 - this checkout's
from profiler.render.excerpts import colours  # noqa: E402
from profiler.render.figures.drawing import to_svg  # noqa: E402
from profiler.render.timeline.still_figure import seconds_figure  # noqa: E402


def spans_of(file: Path) -> list[Span]:
    """Spans of the newest execution of a run."""
    return [Span(**span) for span in json.loads(file.read_text())["executions"][-1]]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("runs", nargs="+", metavar="TITLE=FILE")
    options = parser.parse_args()
    runs = dict(run.rsplit("=", 1) for run in options.runs)
    figure = seconds_figure({title: spans_of(Path(file)) for title, file in runs.items()})
    svg = to_svg(figure, "seconds", "Where the seconds went", ", ".join(runs))
    style = f":root {{ color-scheme: light; {colours()} }} body {{ background: white; }}"
    options.page.write_text(
        f"<!DOCTYPE html><meta charset=utf-8><title>Seconds</title><style>{style}</style>{svg}\n"
    )


if __name__ == "__main__":
    main()
