"""The page's script in a browser: state in the address, details, downloads, baselines.

Skipped where there is no Chromium, or none that starts.
"""

import csv
import io
import json
import math
from urllib.parse import urlencode

import lxml.etree
import lxml.html
import pandas as pd
import pytest
from browser_pages import READY, shared_browser
from synthetic_report import make_report, problems

from profiler.findings.find import find
from profiler.render.embed import problem_facts, timing_blocks
from profiler.render.page import render_page
from profiler.render.words import numbers
from profiler.render.words.comparisons import best_word
from profiler.render.words.signs import why_missing
from profiler.render.words.verdicts import details, word_of

# Acts as a reader would and says what came of it.
PROBE = r"""
async () => {
  const result = {};
  const saved = [];
  URL.createObjectURL = (blob) => { saved.push(blob); return "blob:none"; };
  URL.revokeObjectURL = () => {};
  result.names = [];
  HTMLAnchorElement.prototype.click = function () { result.names.push(this.download); };
  document.getElementById("save-csv").click();
  document.getElementById("save-json").click();
  [result.csv, result.json] = await Promise.all(saved.map((blob) => blob.text()));
  const [svg, png] = document.querySelectorAll("#figure-first .save button");
  svg.click();
  document.querySelector("#main-table").parentElement.nextElementSibling.querySelector("button").click();
  png.click();
  const pause = () => new Promise((done) => setTimeout(done, 20));
  for (let wait = 0; saved.length < 5 && wait < 120; wait += 1) await pause();
  [result.svg, result.table] = await Promise.all(saved.slice(2, 4).map((blob) => blob.text()));
  result.png = saved[4] ? [...new Uint8Array(await saved[4].slice(0, 4).arrayBuffer())] : [];
  result.saved = result.names.splice(2);
  const main = document.getElementById("main-table");
  const pane = document.getElementById("details");
  const press = (key) => document.activeElement.dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
  );
  const text = (selector) => pane.querySelector(selector)?.textContent;
  result.lit = (() => {
    const row = main.tBodies[0].rows[0];
    row.cells[0].dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
    return [row.dataset.variant, document.querySelectorAll(".mark.on").length,
            document.querySelectorAll("tr.on").length];
  })();
  const row = main.querySelector("tr[data-cell='2']");
  row.cells[2].click();
  result.clicked = { hidden: pane.hidden, title: text("h2"), focus: document.activeElement.id,
    counters: Object.fromEntries([...pane.querySelectorAll(".counters tbody tr")].map(
      (one) => [one.cells[0].textContent, one.cells[1].firstChild.textContent])),
    reasons: [...pane.querySelectorAll(".reason")].map((one) => one.textContent),
    dots: pane.querySelectorAll(".dots circle").length, command: text(".command"),
    interval: pane.querySelectorAll(".dots .interval").length, hash: location.hash };
  document.getElementById("pin").click();
  result.beside = { title: text("h2"), columns: pane.querySelectorAll(".counters thead th").length,
    hash: location.hash };
  press("Escape");
  result.closed = { hidden: pane.hidden, focus: document.activeElement === row.cells[0],
    hash: location.hash };
  press("ArrowDown");
  const next = document.activeElement;
  press("Enter");
  result.entered = { cell: next.parentElement.dataset.cell, title: text("h2") };
  document.getElementById("close").click();
  result.returned = document.activeElement === next;
  const figure = document.querySelector("#figures [data-problem='1'] svg");
  figure.focus();
  press("ArrowRight");
  result.mark = document.activeElement.dataset.variant;
  press("Enter");
  result.marked = { title: text("h2"), hash: location.hash };
  press("Escape");
  result.heat = (() => {
    const cell = document.querySelector(".heat td[data-cell='4']");
    cell.click();
    return text("h2");
  })();
  press("Escape");
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
  const find = document.getElementById("find");
  result.finds = document.activeElement === find;
  const empty = document.getElementById("empty");
  find.value = "no variant has this name";
  find.dispatchEvent(new Event("input"));
  result.empty = [empty.hidden, empty.textContent];
  find.value = "vector";
  find.dispatchEvent(new Event("input"));
  result.stops = [...main.querySelectorAll("tbody [tabindex='0']")].map(
    (stop) => stop.parentElement.hidden);
  empty.querySelector("button").click();
  result.shownAgain = [empty.hidden, document.getElementById("count").textContent];
  const twins = [...document.querySelectorAll("details[data-metric]")];
  twins.forEach((twin) => { twin.closest(".choice").open = true; twin.open = true; });
  const tables = () => document.querySelectorAll("details[data-metric] table");
  for (let wait = 0; tables().length < twins.length && wait < 120; wait += 1) await pause();
  const shown = (cell) => (cell.title ? `${cell.textContent} ${cell.title}` : cell.textContent);
  result.medians = Object.fromEntries(twins.map((twin) => [twin.dataset.metric,
    [...twin.querySelectorAll("tr")].map((one) => [...one.cells].map(shown))]));
  const [made] = tables();
  made.querySelectorAll("tbody td")[1].click();
  result.median = text("h2");
  press("Escape");
  made.querySelectorAll(".sort")[1].click();
  const first = made.querySelectorAll("tbody tr td:nth-child(2)");
  result.sorted = [...first].map((one) => one.textContent);
  made.parentElement.nextElementSibling.querySelector("button").click();
  result.made = [result.names.pop(), await saved.at(-1).text()];
  return result;
}
"""


@pytest.fixture(scope="module")
def small():
    return make_report(variant_count=9, problem_list=problems()[:2])


@pytest.fixture(scope="module")
def findings(small):
    return find(small)


@pytest.fixture(scope="module")
def file(findings, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(render_page(findings), encoding="utf-8")
    return path


def opened(file, state=""):
    """The page after its script ran, with this state in its address."""
    return lxml.html.document_fromstring(
        answer(file, "() => document.documentElement.outerHTML", state)
    )


def answer(file, function, state=""):
    """Answer of a function of JavaScript in the page, after the page's script ran."""
    with shared_browser().new_context() as context:
        page = context.new_page()
        page.goto(f"{file.as_uri()}{state}")
        page.wait_for_selector(READY, state="attached")
        return page.evaluate(function)


@pytest.fixture(scope="module")
def plain(file):
    return opened(file)


@pytest.fixture(scope="module")
def result(file):
    return answer(file, PROBE)


def rows(tree):
    return list(tree.xpath("//table[@id='main-table']/tbody/tr"))


def test_figures_and_tables_are_saved_as_they_are_shown(result, plain):
    endings = [name.rpartition(".")[2] for name in result["saved"]]
    assert endings == ["svg", "csv", "png"]
    drawing = lxml.etree.fromstring(result["svg"].encode())
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in result["svg"], "a file has no style sheet of the page"
    assert bytes(result["png"]) == b"\x89PNG"
    lines = list(csv.reader(io.StringIO(result["table"])))
    assert len(lines) == 1 + len(rows(plain))
    assert {len(line) for line in lines} == {len(lines[0])}
    assert float(lines[1][lines[0].index("ratio")]) > 0


def test_csv_has_every_number(small, findings, result):
    assert result["names"] == ["softmax.csv", "softmax.json"]
    table = pd.read_csv(io.StringIO(result["csv"]))
    assert {"cell", "variant", "dtype", "rows", "columns", "outcome", "metric"} <= set(table)
    found = table.dropna(subset="metric").set_index(["cell", "metric"])
    wanted = findings.numbers.frame.set_index(["cell", "metric"])
    wanted = wanted[wanted["median"].notna()]
    assert set(found.index) == set(wanted.index)
    for name in ("n", "median", "mean", "min", "max", "low", "high", "ratio", "rank"):
        both = found[name].to_frame("found").join(wanted[name].rename("wanted"))
        left, right = both["found"].astype(float), both["wanted"].astype(float)
        pd.testing.assert_series_equal(left, right, rtol=1e-5, check_names=False)
    assert set(table["cell"]) == {cell.id for cell in small.plan.cells}
    said = table[table["metric"] == "duration_ns"].set_index("cell")["verdict"]
    assert findings.verdicts.against_baseline
    for cell, pair in findings.verdicts.against_baseline.items():
        assert said[cell] == (pair.verdict and pair.verdict.value)
    assert table.loc[table["metric"] != "duration_ns", "verdict"].isna().all()


def test_json_has_every_cell_with_its_metrics(small, findings, result):
    data = json.loads(result["json"])
    assert data["schema_version"] == 1
    cells = {cell["id"]: cell for cell in data["cells"]}
    assert list(cells) == [cell.id for cell in small.plan.cells]
    for cell in small.plan.cells:
        shown = cells[cell.id]
        assert shown["variant"] == cell.variant.id
        assert shown["problem"] == cell.problem.id
        assert shown["outcome"] == str(findings.programs.status(cell).outcome)
        assert set(shown["against"]) == {"reference", "best", "first", "previous"}
        said = findings.verdicts.against_baseline.get(cell.id)
        if said is not None and said.verdict is not None:
            assert shown["against"]["reference"]["verdict"] == said.verdict.value
        for metric in findings.numbers.metrics:
            value = findings.numbers.value(cell, metric.name)
            assert (metric.name in shown["metrics"]) == value.present
            if value.present:
                found = shown["metrics"][metric.name]
                assert found["median"] == pytest.approx(value.median, rel=1e-5)
                assert found["n"] == value.n


def test_a_click_on_a_row_opens_its_details(findings, result):
    cell = findings.programs.cells[2]
    clicked = result["clicked"]
    assert not clicked["hidden"]
    assert clicked["title"] == f"{cell.variant.label}, {cell.problem.name}"
    assert clicked["focus"] == "details-h"
    for metric in findings.numbers.metrics:
        value = findings.numbers.value(cell, metric.name)
        if value.present:
            assert clicked["counters"][metric.label] == numbers.show(value.median, metric.unit)
    reasons = [
        details(baseline.verdicts[cell.id])
        for baseline in findings.verdicts.baselines
        if baseline.verdicts[cell.id].verdict is not None
    ]
    assert reasons
    assert set(reasons) <= set(clicked["reasons"])
    assert clicked["dots"] >= 16, "its samples and those of the baseline"
    assert clicked["interval"] == 2
    problem, variant = cell.problem.id, cell.variant.id
    assert clicked["command"].endswith(f" --fresh --only problem={problem},variant={variant}")


def test_a_kept_cell_stands_beside_another(findings, result):
    cell = findings.programs.cells[2]
    assert result["beside"]["title"].startswith(f"{cell.variant.label}, ")
    assert f" {findings.programs.baseline.name}, {cell.problem.name}" in result["beside"]["title"]
    assert result["beside"]["columns"] == 3
    assert "beside=" in result["beside"]["hash"]


def test_focus_goes_back_where_it_came_from(result):
    assert result["closed"] == {"hidden": True, "focus": True, "hash": ""}
    assert result["returned"]


def test_rows_marks_and_heat_maps_open_details(findings, result):
    cell = findings.programs.cells[int(result["entered"]["cell"])]
    assert result["entered"]["title"] == f"{cell.variant.label}, {cell.problem.name}"
    variant = findings.programs.variants[int(result["mark"])]
    assert result["marked"]["title"] == f"{variant.label}, {findings.programs.problems[1].name}"
    cell = findings.programs.cells[4]
    assert result["heat"] == f"{cell.variant.label}, {cell.problem.name}"


def test_the_address_opens_two_cells(file, findings):
    first, second = findings.programs.cells[1], findings.programs.cells[3]
    state = urlencode({"cell": first.id, "beside": second.id})
    tree = opened(file, f"#?{state}")
    title = tree.xpath("string(//h2[@id='details-h'])")
    assert title == " \u2194 ".join(
        f"{cell.variant.label}, {cell.problem.name}" for cell in (first, second)
    )
    assert tree.xpath("//button[@id='pin']/@aria-pressed") == ["true"]


def test_the_filter_is_one_key_away_and_says_where_nothing_passes(result):
    assert result["finds"]
    hidden, text = result["empty"]
    assert not hidden
    assert text.startswith("No cell passes these filters.")
    assert result["shownAgain"] == [True, "18 rows"]
    assert result["stops"] == [False], "the Tab key reaches a row that is shown"


def test_rows_and_marks_of_a_variant_light_up(result):
    _, marks, lit = result["lit"]
    assert marks > 3
    assert lit > 3


def test_without_state_everything_is_shown(plain, small):
    assert len(rows(plain)) == len(small.plan.cells)
    assert not [row for row in rows(plain) if row.get("hidden") is not None]
    assert plain.xpath("string(//output[@id='count'])") == "18 rows"


def test_state_filters_sorts_and_changes_the_baseline(file, small, findings):
    tree = opened(file, "#?find=shuffle&baseline=best&sort=2.descending")
    head = tree.xpath("//table[@id='main-table']/thead//th")[2]
    assert "Duration" in head.text_content()
    assert head.get("aria-sort") == "descending"
    shown = [row for row in rows(tree) if row.get("hidden") is None]
    assert shown
    assert all("shuffle" in row.text_content() for row in shown)
    assert tree.xpath("string(//output[@id='count'])") == f"{len(shown)} of 18 rows"
    values = [row[2].text_content() for row in rows(tree)]
    known = [float(text) for text in values if text != "\u2013"]
    assert known == sorted(known, reverse=True)
    assert "\u2013" not in values[: len(known)], "missing ones are last"
    ratios = next(one.verdicts for one in findings.verdicts.baselines if one.key == "best")
    for row in rows(tree):
        cell = small.plan.cells[int(row.get("data-cell"))]
        text = row.xpath("string(td[contains(@class, 'ratio')])")
        ratio = ratios[cell.id].ratio
        assert text == (f"{ratio:.3f}\u00d7" if math.isfinite(ratio) else "\u2013")
        (said,) = row.xpath("td[contains(@class, ' verdict')]")
        assert said.text_content() == (word_of(ratios[cell.id]) or "\u2013")
        if ratios[cell.id].verdict is not None:
            assert row.get("data-verdict") in said.get("class")


def test_rows_are_filtered_by_the_verdict_against_the_chosen_baseline(file, small):
    tree = opened(file, "#?baseline=best&verdicts=is-slower")
    shown = [row for row in rows(tree) if row.get("hidden") is None]
    assert 0 < len(shown) < len(small.plan.cells)
    assert "is-slower" not in {row.get("data-verdict") for row in shown}
    boxes = tree.xpath("//input[@data-verdict='is-slower']")
    assert [box.get("data-verdict") for box in boxes] == ["is-slower"]


def test_check_boxes_filter(file, small):
    """The first value of the first group is unchecked: half of the cells go."""
    first = small.plan.cells[0].problem.params["columns"]
    tree = opened(file, "#?off=0.0")
    shown = [row for row in rows(tree) if row.get("hidden") is None]
    assert len(shown) == len(small.plan.cells) // 2
    for row in shown:
        cell = small.plan.cells[int(row.get("data-cell"))]
        assert cell.problem.params["columns"] != first


def test_a_link_to_a_cell_opens_its_details(file, findings):
    cell = findings.programs.cells[-1]
    tree = opened(file, f"#cell-{cell.id}")
    title = tree.xpath("string(//h2[@id='details-h'])")
    assert title == f"{cell.variant.label}, {cell.problem.name}"


def test_tables_far_from_the_window_are_not_laid_out_at_the_start(file, plain):
    assert not plain.xpath("//style[@id='stuck']"), "it measures the columns of the main table"
    with shared_browser().new_context() as context:
        page = context.new_page()
        page.goto(f"{file.as_uri()}#table")
        page.wait_for_selector("#stuck", state="attached")
        assert "#main-table" in page.inner_html("#stuck")
        page.wait_for_timeout(300)  # longer than what lies above takes to be laid out
        top = page.locator("#table").bounding_box() or {"y": math.inf}
        assert 0 <= top["y"] < 100, "a link leads to its section, and stays there"


def test_the_table_of_a_metric_is_made_when_it_is_opened(findings, plain, result):
    assert not plain.xpath("//details[@data-metric]//table")
    assert "duration_ns" in result["medians"]
    variants = [rank.variant for rank in findings.ranking.ranks]
    for metric in findings.numbers.metrics:
        if metric.name not in result["medians"]:
            continue
        (heads, *table) = result["medians"][metric.name]
        columns = [
            numbers.column(
                [
                    findings.numbers.correct_at(variant, problem, metric.name).median
                    for variant in variants
                ],
                metric.unit,
            )
            for problem in findings.programs.problems
        ]
        names = [problem.name for problem in findings.programs.problems]
        assert heads == ["variant"] + [
            f"{name} ({unit})" if unit else name
            for name, (unit, _) in zip(names, columns, strict=True)
        ]
        for place, (variant, (name, *texts)) in enumerate(zip(variants, table, strict=True)):
            role = findings.ranking.role(variant)
            tag = {"best": f" {best_word(findings.ranking)}", "baseline": " baseline"}.get(role, "")
            assert name == variant.label + tag
            for problem, text, (_, wanted) in zip(
                findings.programs.problems, texts, columns, strict=True
            ):
                cell = findings.programs.by_place.get((variant.id, problem.id))
                why = f" {why_missing(findings.numbers, cell, metric.name)}"
                missing = wanted[place] == numbers.MISSING
                assert text == wanted[place] + (why if missing else "")


def test_a_table_that_was_made_sorts_saves_and_opens_details(findings, result):
    sorted_values = [float(text) for text in result["sorted"] if text != numbers.MISSING]
    assert len(sorted_values) > 2
    assert sorted_values == sorted(sorted_values)
    name, text = result["made"]
    assert name.endswith("-Duration-medians-by-variant-and-problem.csv")
    lines = list(csv.reader(io.StringIO(text)))
    assert [line[1] for line in lines[1:]] == result["sorted"]
    best = findings.ranking.ranks[0].variant
    assert result["median"] == f"{best.name}, {findings.programs.problems[1].name}"


def test_details_have_what_no_table_says(tmp_path):
    """Aliases, timing blocks beside a confirmation, facts of the problem, causes, and counters."""
    report = make_report(variant_count=10, problem_list=problems()[:1], final_blocks=8)
    findings = find(report)
    path = tmp_path / "index.html"
    path.write_text(render_page(findings), encoding="utf-8")

    def pane(cell):
        tree = opened(path, f"#?{urlencode({'cell': cell.id})}")
        return " ".join(tree.xpath("string(//*[@id='details-body'])").split())

    ((owner, aliases),) = findings.programs.aliases.items()
    cells = {cell.variant.id: cell for cell in findings.programs.cells}
    assert f"also called {', '.join(aliases)}" in pane(cells[owner])
    confirmed = next(cell for cell in cells.values() if timing_blocks(findings.numbers, cell))
    median, count = timing_blocks(findings.numbers, confirmed) or (math.nan, 0)
    details = pane(confirmed)
    shown = " ".join(numbers.show(median, "ns").split())
    assert "of the confirmation, from " in details
    assert f"{shown} in the {count} timing blocks" in details
    for fact in problem_facts(findings.programs, findings.programs.problems[0]):
        assert " ".join(fact.split()) in details
    assert "Nearest peak of those counted: " in details
    assert details.count(f"--explain {confirmed.id}") == 1
    failed = next(cell for cell in cells.values() if findings.programs.status(cell).cause)
    details = pane(failed)
    assert " ".join(findings.programs.status(failed).cause.split()) in details
    assert "--explain" not in details
