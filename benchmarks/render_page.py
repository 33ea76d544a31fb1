"""How long a page of 400 cells takes, from the report in memory to HTML, and how large it is.

Run from the repository root: `python benchmarks/render_page.py [PATH]`; PATH keeps the page.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "profiler" / "render")]


def main() -> None:
    """Render once with cold imports and once warm, and print seconds and size."""
    start = time.perf_counter()
    from synthetic_report import make_report  # noqa: PLC0415 - its import is not what is timed

    report = make_report(variant_count=34)
    print(f"making a report of {len(report.plan.cells)} cells: {time.perf_counter() - start:.2f} s")
    for label in ("with imports", "again"):
        start = time.perf_counter()
        from profiler.findings.find import find  # noqa: PLC0415 - timed
        from profiler.render.page import render_page  # noqa: PLC0415 - timed

        page = render_page(find(report))
        seconds = time.perf_counter() - start
        print(f"{label}: {seconds:.2f} s, {len(page.encode()) / 1e6:.2f} MB")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
