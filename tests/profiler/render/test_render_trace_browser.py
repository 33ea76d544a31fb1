"""Timelines handed to Perfetto, or saved as its trace, in a browser.

Skipped where there is no Chromium, or none that starts.
"""

import json

import pytest
import stamped
from browser_pages import open_page
from synthetic_timeline import mlp, timeline_report
from test_render_in_kernel import report_with

from profiler.analyse.phases import find_phases
from profiler.findings.find import find
from profiler.findings.timelines.bars import SETS, find_bars
from profiler.parse.stamps import kernel_stamps
from profiler.render.page import render_page
from profiler.render.timeline.picture import in_rows
from profiler.render.timeline.section import MOST_OPERATIONS

STAMPS = stamped.ping_pong(delay=200)
TRAINING = mlp("c", launches=3, layers=2, speed=0.3)
# Perfetto is elsewhere: what a page sends its window after it answered.
STAND_IN = """() => {
  window.sent = [];
  window.open = (address) => ({ postMessage: (message, origin) => {
    window.sent.push([address, origin]);
    if (message === "PING") dispatchEvent(new MessageEvent("message", { origin, data: "PONG" }));
    else document.body.dataset.trace = new TextDecoder().decode(message.perfetto.buffer);
  } });
}"""


@pytest.fixture(scope="module", params=["in_kernel", "timeline"])
def page(request, browser, tmp_path_factory):
    in_kernel = request.param == "in_kernel"
    report = report_with([STAMPS]) if in_kernel else timeline_report([TRAINING], count=1)
    file = tmp_path_factory.mktemp("trace") / "page.html"
    file.write_text(render_page(find(report)), encoding="utf-8")
    opened = open_page(browser, file.as_uri())
    yield request.param, opened.page
    assert (opened.console, opened.requests) == ([], [])
    opened.page.context.close()


def bars_of(kind):
    """Start and end of every bar, in ns."""
    if kind == "in_kernel":
        spans = kernel_stamps(STAMPS).spans
        return sorted(zip(spans["start_ns"], spans["end_ns"], strict=True))
    timeline = find_phases(TRAINING)
    picture = in_rows(find_bars(timeline, MOST_OPERATIONS))
    frames = [picture.frames[name] for name in SETS]
    return sorted(
        pair for frame in frames for pair in zip(frame["start_ns"], frame["end_ns"], strict=True)
    )


def complete(text):
    events = json.loads(text)["traceEvents"]
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    bars = [event for event in events if event["ph"] == "X"]
    assert {(event["pid"], event["tid"]) for event in bars} <= threads
    return sorted((1000 * event["ts"], 1000 * (event["ts"] + event["dur"])) for event in bars)


def test_perfetto_gets_every_bar_once_it_answers(page):
    kind, opened = page
    opened.evaluate(STAND_IN)
    opened.get_by_role("button", name="Open in Perfetto").first.click()
    body = opened.locator("body[data-trace]")
    body.wait_for()
    assert opened.evaluate("sent") == [["https://ui.perfetto.dev"] * 2] * 2
    found, wanted = complete(body.get_attribute("data-trace")), bars_of(kind)
    if kind == "in_kernel":  # and below each warpgroup what it has under way
        assert len(found) > len(wanted)
        found = [bar for bar in found if any(bar == pytest.approx(one, abs=0.6) for one in wanted)]
    assert len(found) >= len(wanted)
    for bar, one in zip(found, wanted, strict=False):
        assert bar == pytest.approx(one, abs=0.6)


def test_the_trace_is_saved_as_a_file(page):
    _, opened = page
    with opened.expect_download() as download:
        opened.get_by_role("button", name="Save trace").first.click()
    assert download.value.suggested_filename.endswith(".trace.json")
    assert complete(download.value.path().read_text(encoding="utf-8"))
