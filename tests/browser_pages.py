"""Pages in Chromium: one browser for the tests of a process, and what is asked of an open page.

Chromium is the system's; Playwright downloads none. Where it cannot be started, the tests that need
it are skipped, and `make test` says so at its end.
"""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # where only kernels are tested, no browser need be installed
    from playwright.sync_api import Page

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
"""Programs on PATH, the quickest first: a shell without windows takes three quarters of the CPU."""
INSTALL = "install it with `apt-get install chromium-headless-shell`"
FLAGS = ("--disable-gpu", "--js-flags=--single-threaded")
"""V8's threads beside the page's compile and collect in advance: a fourteenth of the time."""
CHECKS_FILE = Path(__file__).with_name("page_checks.js")

PATIENCE_MS = 20_000
BLANK = "about:blank"
READY = "html.js"
"""A page whose script has unpacked the data and has done what it does at the start."""
WIDE = {"width": 1440, "height": 900}
TABLET = {"width": 768, "height": 1024}
NARROW = {"width": 390, "height": 844}
PAPER = {"width": 718, "height": 1047}
"""A4 between margins of 10 mm, at 96 px an inch; a page that asks for landscape gets it turned."""
MOUSE = "mouse"
WAYS = (MOUSE, "touch", "key")
"""Ways to open the details of a cell."""
ON_COLOURS = ("color-contrast", "link-in-text-block")
"""Rules of axe-core that another colour scheme can break and a narrow window cannot."""
NEW_COLOURS = "[data-new-colours]"
"""What page_checks.js marks: texts in colours that axe-core has not judged yet."""
ON_SCROLLERS = ("scrollable-region-focusable",)
"""Asked of the whole page, not of a part of it, by a check of our own."""


class _Shared:
    """The browser of this process: started by the first who asks, and closed at the end."""

    def __init__(self):
        self._closing = ExitStack()
        self._browser = None
        self._why_not = ""

    def get(self):
        if self._browser is None and not self._why_not:
            self._start()
        if self._browser is None:
            pytest.skip(self._why_not)
        return self._browser

    def _start(self):
        path = next((path for name in NAMES if (path := shutil.which(name))), None)
        if path is None:
            self._why_not = f"no Chromium on PATH: {INSTALL}"
            return
        try:
            from playwright.sync_api import Error, sync_playwright
        except ImportError as error:
            self._why_not = f"{error}: install the extra `dev`"
            return
        playwright = self._closing.enter_context(sync_playwright())
        try:
            self._browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            self._why_not = f"Chromium does not start here: {str(error)[-200:]}"
            return
        self._closing.callback(self._browser.close)

    def close(self):
        self._closing.close()
        self._browser = None


_SHARED = _Shared()
shared_browser = _SHARED.get
"""The browser of this process; skips the test where it cannot be started."""
close_browser = _SHARED.close


@cache
def _axe():
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Opened:
    """An open page with everything that it asked for and complained about."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Addresses outside the page's own file."""

    def ask(self, check, argument=None):
        """Answer of a function of page_checks.js."""
        return self.page.evaluate(f"(argument) => pageChecks.{check}(argument)", argument)


def new_window(browser):
    """A window for mouse and touch, with nothing in it."""
    page = browser.new_context(viewport=WIDE, has_touch=True).new_page()
    page.set_default_timeout(PATIENCE_MS)
    return page


def open_page(browser, address):
    """Open a page in a window of its own, with page_checks.js."""
    return open_in(new_window(browser), address)


def open_in(page, address):
    """Open a page in a window, whatever was done to the page that was there before."""
    if page.url != BLANK:
        page.goto(BLANK)
        page.emulate_media(media="screen", color_scheme="light")
        page.set_viewport_size(WIDE)
    opened = Opened(page)
    page.on("console", lambda message: opened.console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.console.append(str(error)))
    page.on("request", lambda request: _note_request(opened, request.url))
    page.goto(address)
    page.wait_for_selector(READY, state="attached")
    page.evaluate(CHECKS_FILE.read_text(encoding="utf-8"))
    return opened


def _note_request(opened, url):
    if not url.startswith(("file:", "data:", "blob:")):
        opened.requests.append(url)


def accessibility(page, within="html", **options):
    """What axe-core finds wrong with elements of a page, a sentence for each."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_axe())
    options = {"resultTypes": ["violations"], "preload": False} | options
    found = page.evaluate(
        "async ([within, options]) => (await axe.run(within, options)).violations",
        [within, options],
    )
    return [
        f"{rule['id']}: {node['target']} {node['html'][:120]}"
        for rule in found
        for node in rule["nodes"]
    ]


def findings_of(opened, known, ways=(MOUSE,)):
    """What each check finds wrong with a page, by the check; the page is not usable afterwards.

    `known` are the looks and colours of elements that axe-core has already seen on other pages;
    those of this page are added. `ways` are those in which the details of a cell are opened.
    """
    page = opened.page
    found = {
        "answer below the fold": opened.ask("belowFold"),
        "details pane": list(_faults_of_details(opened, ways)),
    }
    opened.ask("openAll")
    found |= {
        "clipped text of a figure": opened.ask("clippedTexts"),
        "equal labels": opened.ask("equalLabels"),
        "order of a table": opened.ask("misorderedTables"),
        "key column at 1440 px": opened.ask("clippedKeys"),
        "out of reach of the keyboard": opened.ask("unreachableScrollers"),
        "equal ids": opened.ask("equalIds"),
    }
    turned = opened.ask("isLandscape")
    page.set_viewport_size(TABLET)
    found["figure cut at 768 px"] = opened.ask("cutFigures")
    page.set_viewport_size(NARROW)
    opened.ask("settled")
    found["sideways scroll at 390 px"] = opened.ask("sidewaysScroll")
    found["figure cut at 390 px"] = opened.ask("cutFigures")
    found["out of reach of the keyboard"] += opened.ask("unreachableScrollers")
    size = {"width": PAPER["height"], "height": PAPER["width"]} if turned else PAPER
    with _hidden(page):
        page.emulate_media(media="print")
        page.set_viewport_size(size)
    found["key column in A4"] = opened.ask("clippedKeys")
    found["sliced in A4"] = opened.ask("slicedBlocks")
    found |= {"console": [*opened.console], "request": [*opened.requests]}
    # Before the window is wide again, which would lay out the whole page once more. The page's own
    # script may miss what is taken away: what it says of that is not asked for.
    known.update(json.loads(opened.ask("keepOneOfEveryLook", json.dumps([*known]))))
    page.emulate_media(media="screen")
    page.set_viewport_size(WIDE)
    return found | {f"axe-core, {mode}": wrong for mode, wrong in _judged_by_axe(opened, known)}


@contextmanager
def _hidden(page):
    """Have nothing laid out while its medium and its window change: once afterwards is enough."""
    page.evaluate("document.documentElement.style.display = 'none'")
    yield
    page.evaluate("document.documentElement.style.display = ''")


def _faults_of_details(opened, ways):
    """What does not open the details of the first cell of the main table, or loses the focus."""
    page = opened.page
    rows = page.locator("#main-table tbody tr[data-cell]")
    if not rows.count():
        return
    pane = page.locator("#details")
    if not pane.count():
        yield "there is no pane of details"
        return
    first = rows.first.locator("th, td").first
    name = {"x": 12, "y": 12}  # in the middle there may be the button that copies it
    acts = {
        MOUSE: lambda: first.click(position=name),
        "touch": lambda: first.tap(position=name),
        "key": lambda: first.press("Enter"),
    }
    # What is above the row may change its height when it comes into view: nobody clicks meanwhile.
    # Only then has the table the widths of its columns, which other checks ask for.
    first.scroll_into_view_if_needed()
    opened.ask("settled")
    for way in ways:
        acts[way]()
        if not _becomes(pane, "visible"):
            yield f"{way}: it stays closed"
            continue
        page.keyboard.press("Escape")
        if not _becomes(pane, "hidden"):
            yield f"{way}: Escape does not close it"
        if not rows.first.evaluate("(row) => row.contains(document.activeElement)"):
            yield f"{way}: the focus does not return to the row"


def _becomes(element, state):
    """Whether an element gets there: on a busy machine a page handles a click some time later."""
    from playwright.sync_api import TimeoutError as NotInTimeError

    try:
        element.wait_for(state=state)
    except NotInTimeError:
        return False
    return True


def _judged_by_axe(opened, known):
    page = opened.page
    rules = {name: {"enabled": False} for name in ON_SCROLLERS}
    colourless = rules | {name: {"enabled": False} for name in ON_COLOURS}
    yield "light", accessibility(page, rules=colourless) + _new_colours(opened, known)
    page.emulate_media(color_scheme="dark")
    yield "dark", _new_colours(opened, known)
    page.emulate_media(media="print", color_scheme="light")
    yield "print", _new_colours(opened, known)
    page.emulate_media(media="screen")
    page.set_viewport_size(NARROW)
    yield "390 px", accessibility(page, rules=colourless)


def _new_colours(opened, known):
    """What axe-core finds wrong with colours of texts that no page had before."""
    known.update(json.loads(opened.ask("markNewColours", json.dumps([*known]))))
    if not opened.page.locator(NEW_COLOURS).count():
        return []
    colours = {"type": "rule", "values": list(ON_COLOURS)}
    return accessibility(opened.page, NEW_COLOURS, runOnly=colours)
