"""How large the page of a training's timelines is, and how long a browser takes to open it.

    python benchmarks/timeline_page.py [--steps 100] [--cells 6] [--repeats 5] [--keep PATH]

The training is made here: steps of a forward and a backward pass over 8 layers and an optimizer
step, 81 operations each, one timeline for each of some variants. Chromium opens the page from disk
and takes a picture of its window, and does the same with an empty page, which is what the browser
takes to start. The page also says when its load event came, with the picture's data decoded.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "profiler" / "render")]

SECONDS_BAR, MEGABYTES_BAR = 2.0, 3.0
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1400,1600")
EMPTY = "<!DOCTYPE html><html lang='en'><head><title>empty</title></head><body></body></html>"
CLOCK = """<script>addEventListener("load", () => {
  document.body.dataset.loaded = performance.now().toFixed(0);
});</script>"""
_LOADED = re.compile(r'data-loaded="(\d+)"')


def main() -> int:
    """Make the page, open it and the empty one in turn, and print medians; 1: a bar is missed."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--cells", type=int, default=6)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--keep", type=Path, help="write the page here")
    options = arguments.parse_args()
    page = make_page(options.steps, options.cells)
    if options.keep:
        options.keep.write_text(page, encoding="utf-8")
    size = len(page.encode()) / 1e6
    print(f"page: {size:.2f} MB (bar {MEGABYTES_BAR:.0f} MB)")
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print("no Chromium on PATH: opening it was not measured")
        return int(size > MEGABYTES_BAR)
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(browser, page, Path(folder), options.repeats)
    return int(size > MEGABYTES_BAR or seconds > SECONDS_BAR)


def make_page(steps: int, cells: int) -> str:
    """Render a run of `cells` variants with a timeline of `steps` steps each."""
    from synthetic_timeline import mlp, timeline_report  # noqa: PLC0415 - not timed

    from profiler.findings.find import find  # noqa: PLC0415
    from profiler.render.page import render_page  # noqa: PLC0415

    steps_per_launch = max(steps // 10, 1)
    timelines = [
        mlp("c", launches=10, steps=steps_per_launch, speed=0.5 + 0.5 * number, seed=number)
        for number in range(cells)
    ]
    report = timeline_report(timelines, count=cells)
    operations = sum(len(timeline.operations) for timeline in report.details.timelines.values())
    start = perf_counter()
    page = render_page(find(report))
    seconds = perf_counter() - start
    print(f"{operations:,} operations in {cells} cells, found and rendered in {seconds:.2f} s")
    return page


def measure(browser: str, page: str, folder: Path, repeats: int) -> float:
    """Seconds until the page is opened and painted, the browser's own start included: a median."""
    files = {"page": folder / "page.html", "empty": folder / "empty.html"}
    files["page"].write_text(page, encoding="utf-8")
    files["empty"].write_text(EMPTY, encoding="utf-8")
    clocked = folder / "clocked.html"
    clocked.write_text(page.replace("</body>", f"{CLOCK}</body>"), encoding="utf-8")
    times: dict[str, list[float]] = {name: [] for name in files}
    loads = []
    for _ in range(repeats):
        for name, file in files.items():
            picture = f"--screenshot={folder / 'window.png'}"
            times[name].append(opened(browser, folder, picture, file)[0])
        _, text = opened(browser, folder, "--dump-dom", clocked)
        loaded = _LOADED.search(text)
        assert loaded is not None, "the page came to its load event"
        loads.append(int(loaded[1]) / 1e3)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    print(f"load event after {statistics.median(loads):.2f} s")
    print(f"opened and painted: {medians['page']:.2f} s (bar {SECONDS_BAR:.0f} s)")
    print(f"an empty page: {medians['empty']:.2f} s")
    return medians["page"]


def opened(browser: str, folder: Path, what: str, file: Path) -> tuple[float, str]:
    """Seconds until the browser is done with a file, and what it wrote."""
    command = [browser, *FLAGS, f"--user-data-dir={folder / 'profile'}", what, file.as_uri()]
    start = perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return perf_counter() - start, done.stdout


if __name__ == "__main__":
    sys.exit(main())
