"""Parallel coordinates of an autotune in a browser: brushing filters the page, lines open details.

Skipped where there is no Chromium, or none that starts.
"""

import pytest
from synthetic_report import make_report, problems, without
from test_render_browser import answer

from profiler.findings.find import find

PROBE = r"""
async () => {
  const parallel = document.getElementById("parallel");
  const brushes = () => [...parallel.querySelectorAll(".brush")];
  const counted = () => document.getElementById("count").textContent;
  const faded = () => parallel.querySelectorAll(".line.out").length;
  const result = { problem: parallel.querySelector("select").selectedOptions[0].textContent };
  result.lines = [...parallel.querySelectorAll(".line")].map((line) => line.dataset.variant);
  result.values = brushes().map((brush) => brush.getAttribute("aria-label"));
  const brush = brushes()[0];
  brush.focus();
  brush.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  result.brushed = { checked: brush.getAttribute("aria-checked"), count: counted(), out: faded(),
    hash: location.hash,
    boxes: document.querySelectorAll("input[data-group]:not(:checked)").length };
  brush.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  result.back = [brush.getAttribute("aria-checked"), counted(), faded()];
  const range = parallel.querySelector("input");
  range.value = range.max;
  range.dispatchEvent(new Event("input"));
  result.quick = [counted(), faded(), parallel.querySelector("output").textContent];
  document.getElementById("reset").click();
  result.reset = [range.value, counted(), faded()];
  parallel.querySelector(".line:last-of-type").dispatchEvent(
    new MouseEvent("click", { bubbles: true }));
  result.title = document.getElementById("details-h").textContent;
  return result;
}
"""


@pytest.fixture(scope="module")
def tuning():
    small = make_report(variant_count=12, problem_list=problems()[:3])
    return find(without(small, kind="autotune"))


@pytest.fixture(scope="module")
def result(page_of, tmp_path_factory):
    path = tmp_path_factory.mktemp("parallel") / "index.html"
    path.write_text(page_of("autotune"), encoding="utf-8")
    return answer(path, PROBE)


def rows_of(text):
    return int(text.split(maxsplit=1)[0])


def test_every_correct_configuration_has_a_line_the_best_on_top(tuning, result):
    (problem,) = [one for one in tuning.programs.problems if one.name == result["problem"]]
    assert problem == tuning.ranking.largest_problem
    slowdowns = [
        tuning.ranking.slowdowns[tuning.programs.at(variant, problem).id]
        for variant in (tuning.programs.variants[int(number)] for number in result["lines"])
    ]
    assert len(slowdowns) > 3
    assert slowdowns == sorted(slowdowns, reverse=True)
    assert slowdowns[-1] == 1
    best = tuning.programs.variants[int(result["lines"][-1])]
    assert result["title"] == f"{best.name}, {problem.name}"


def test_a_value_is_a_check_box_of_the_filter(tuning, result):
    brushed = result["brushed"]
    assert brushed["checked"] == "false"
    assert brushed["boxes"] == 1
    key, value = result["values"][0].split(" ")
    left = [cell for cell in tuning.programs.cells if str(cell.variant.params.get(key)) != value]
    assert rows_of(brushed["count"]) == len(left)
    out = [
        number
        for number in result["lines"]
        if str(tuning.programs.variants[int(number)].params.get(key)) == value
    ]
    assert brushed["out"] == len(out) > 0
    assert "off=" in brushed["hash"]
    assert result["back"] == ["true", f"{len(tuning.programs.cells)} rows", 0]


def test_the_slider_leaves_out_what_is_slower(tuning, result):
    count, out, words = result["quick"]
    quick = [
        cell
        for cell in tuning.programs.cells
        if tuning.ranking.slowdowns.get(cell.id, 9.0) <= 1.005
    ]
    assert rows_of(count) == len(quick) > 0
    assert out > 0
    assert "1.005" in words
    assert result["reset"] == ["0", f"{len(tuning.programs.cells)} rows", 0]
