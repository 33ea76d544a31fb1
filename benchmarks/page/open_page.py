"""How large a page is, when a browser has first painted it, and when it answers a reader.

    python benchmarks/page/open_page.py [PAGE] [--repeats 9]

PAGE is the page of autotune that is kept in git, 516 cells, by default. Chromium opens it from
disk, each time in a new window. "Interactive" is when the page's script has run and the browser is
idle for the first time after it: a key that is pressed earlier waits until then.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "reports/gallery/autotune.html"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
PAINT_BAR, INTERACTIVE_BAR, MEGABYTES_BAR = 0.3, 0.6, 2.5

# In seconds since the navigation began. A paint is reported after it has happened.
TIMES = """
() => new Promise((done) => {
  const answer = () => requestIdleCallback(() => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    if (!paint) { setTimeout(answer, 10); return; }
    done([paint.startTime / 1e3, performance.now() / 1e3]);
  });
  if (document.readyState === "complete") answer(); else addEventListener("load", answer);
})
"""


def main() -> int:
    """Print size and medians; 1 where a bar is missed."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("page", nargs="?", type=Path, default=PAGE)
    arguments.add_argument("--repeats", type=int, default=9)
    options = arguments.parse_args()
    size = options.page.stat().st_size / 1e6
    print(f"page: {size:.2f} MB (bar {MEGABYTES_BAR} MB)")
    path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if path is None:
        print("no Chromium on PATH: opening it was not measured")
        return int(size > MEGABYTES_BAR)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--disable-gpu"])
        times = [seconds_of(browser, options.page) for _ in range(options.repeats)]
        browser.close()
    paint, interactive = (statistics.median(values) for values in zip(*times, strict=True))
    print(f"first paint: {paint:.2f} s (bar {PAINT_BAR} s)")
    print(f"interactive: {interactive:.2f} s (bar {INTERACTIVE_BAR} s)")
    return int(size > MEGABYTES_BAR or paint > PAINT_BAR or interactive > INTERACTIVE_BAR)


def seconds_of(browser: Browser, page_file: Path) -> tuple[float, float]:
    """Seconds until the first paint, and until the page answers."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.goto(page_file.resolve().as_uri(), wait_until="commit")
        paint, interactive = page.evaluate(TIMES)
        return float(paint), float(interactive)


if __name__ == "__main__":
    sys.exit(main())
