"""The picture of a timeline in a browser: it is drawn, can be walked through and zoomed.

Skipped where there is no Chromium, or none that starts.
"""

import pytest
from synthetic_timeline import mlp, timeline_report
from test_render_browser import answer

from profiler.analyse.phases import find_phases
from profiler.findings.find import find
from profiler.findings.timelines.bars import GPU, RANGE, bar_paths, find_bars
from profiler.render.page import render_page
from profiler.render.timeline.picture import in_rows
from profiler.render.timeline.section import MOST_OPERATIONS

# Acts as a reader would and writes down what came of it.
PROBE = """
async () => {
  while (!document.querySelector(".viewer .bars")) await new Promise((go) => setTimeout(go, 5));
  const frame = () => new Promise((go) => setTimeout(go, 60));
  const holder = document.querySelector("details[data-timeline]");
  const viewer = holder.querySelector(".viewer");
  const bars = viewer.querySelector(".bars");
  const result = { walked: [] };
  const press = (key) => bars.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const chosen = viewer.querySelector(".chosen");
  const words = () => [...chosen.childNodes].map((one) => one.textContent);
  const painted = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] === 255) colours.add(data.slice(at, at + 3).join());
    }
    return [...colours].sort();
  };
  const view = async () => { await frame(); return viewer.querySelector("output").textContent; };
  await frame();
  result.hidden = [viewer.hidden, getComputedStyle(holder.querySelector(".still .chart")).display];
  result.colours = [painted(bars), painted(viewer.querySelector(".strip"))];
  result.label = bars.getAttribute("aria-label");
  result.first = await view();
  press("0");
  result.all = await view();
  press("+");
  result.nearer = await view();
  press("ArrowRight");
  result.later = await view();
  press("1");
  result.back = await view();
  press("0");
  await frame();
  for (let step = 0; step < 12; step += 1) { press("n"); result.walked.push(words()); }
  press("p");
  result.before = words();
  const box = bars.getBoundingClientRect();
  const at = { clientX: box.x + 160, clientY: box.y + 26, bubbles: true };
  bars.dispatchEvent(new PointerEvent("pointermove", at));
  result.tip = viewer.querySelector(".tip").textContent;
  document.getElementById("theme").click();
  await frame();
  result.dark = painted(bars);
  result.made = document.querySelectorAll("canvas").length;
  const select = document.querySelector("[data-switch='timeline'] select");
  select.selectedIndex = 1;
  select.dispatchEvent(new Event("change"));
  await frame();
  result.after = document.querySelectorAll("canvas").length;
  return result;
}
"""

TRAINING = mlp("c", launches=3, layers=2, speed=0.3)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("timeline") / "index.html"
    page = render_page(find(timeline_report([TRAINING, mlp("c", gpu=False)], count=2)))
    path.write_text(page, encoding="utf-8")
    return answer(path, PROBE)


def test_the_picture_takes_the_place_of_the_still_figure(result):
    assert result["hidden"] == [False, "none"]
    bars, strip = result["colours"]
    assert len(bars) > 5, "ranges and operations in the colours of their phases"
    assert len(strip) >= 2
    assert "tables below" in result["label"]


def test_keys_zoom_and_move(result):
    views = [result[name] for name in ("first", "all", "nearer", "later")]
    assert len(set(views)) == 4
    assert result["all"].startswith("0\u202fns to ")
    assert result["back"] == result["first"]


def test_every_bar_tells_its_name_duration_and_ranges(result):
    timeline = find_phases(TRAINING)
    picture = in_rows(find_bars(timeline, MOST_OPERATIONS))
    paths = [" / ".join(path) for path in bar_paths(picture.frames[RANGE])]
    wanted = picture.frames[GPU].iloc[: len(result["walked"])]
    for told, (_, bar) in zip(result["walked"], wanted.iterrows(), strict=True):
        name, _, rest = told
        assert name == bar["name"]
        assert f"in {paths[bar['inside']]}" in rest
        length = bar["end_ns"] - bar["start_ns"]
        shown = f"{length}\u202fns" if length < 1000 else f"{length / 1000:.4g}\u202f\u00b5s"
        assert f"on the GPU, {shown}, begins at" in rest
    assert result["before"] == result["walked"][-2]


def test_hover_tells_what_is_under_it(result):
    assert result["tip"].startswith("launch=0")


def test_dark_and_a_cell_that_is_looked_at_later(result):
    assert len(result["dark"]) > 5
    assert result["dark"] != result["colours"][0]
    assert (result["made"], result["after"]) == (2, 4), "a picture is made when it is looked at"
