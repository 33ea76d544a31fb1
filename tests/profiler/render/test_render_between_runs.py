"""The page and the tables of a comparison between runs."""

import base64
import io
import json
import re

import lxml.html
import pytest
from as_read import words
from rich.console import Console
from run_pairs import Pair
from scaled_runs import change_json
from test_render_browser import opened

from profiler.model import Verdict
from profiler.render.runs.history import MOST_PANELS, durations_table, history_marks, runs_table
from profiler.render.runs.page import cards, comparison_tables, render_comparison, sentences
from profiler.render.runs.rows import change_table

FASTER, SLOWER = (verdict.word.lower() for verdict in (Verdict.FASTER, Verdict.SLOWER))
HOSTILE = "</td><script>alert(1)</script>"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    pair = Pair(tmp_path_factory.mktemp("runs"))
    pair.second = pair.copy(
        {"slow..": 1.06, "fast..": 0.9},
        environment={"driver": HOSTILE, "git_commit": "aaaabbbbcccc", "git_dirty": True},
    )
    return pair


@pytest.fixture(scope="module")
def comparison(pair):
    return pair.compare(pair.second)


@pytest.fixture(scope="module")
def history(pair):
    third = pair.copy({"slow..": 1.2, "odd..": 0.8}, created="2026-12-02T08:00:00+00:00")
    return pair.compare(pair.second, third)


@pytest.fixture(scope="module")
def refused(pair):
    newer = pair.copy({"slow..": 2.0}, environment={"gpu": "NVIDIA A100"})
    return pair.compare(newer)


@pytest.fixture(scope="module")
def page(comparison):
    return render_comparison(comparison)


@pytest.fixture(scope="module")
def tree(page):
    return lxml.html.document_fromstring(page)


def shown(comparison):
    console = Console(width=240, file=io.StringIO(), highlight=False)
    console.print(comparison_tables(comparison))
    return console.file.getvalue()


def answer(comparison):
    cards = sentences(comparison)
    return " ".join("".join(part.text for part in sentence) for sentence in cards)


# ---- rows ----


def test_the_slowest_regression_comes_first(comparison):
    lines = change_table(comparison).lines
    assert [row.name for row in lines[:4]] == ["slow", "slow", "fast", "fast"]
    first, second, third, fourth = (float(row.data[3].raw) for row in lines[:4])
    assert first >= second > 1 > fourth >= third
    assert [row.data[5].text for row in lines[:4]] == [SLOWER] * 2 + [FASTER] * 2
    assert len(lines) == len(comparison.last.cells)


# ---- the page ----


def test_the_page_is_one_file_that_loads_nothing(page):
    assert "<!DOCTYPE html>" in page
    assert "default-src 'none'" in page
    outside = re.findall(r'(?:src|href)="(?!#|data:application/json;base64,)', page)
    assert outside == []
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+|http-equiv", "", page)


def test_what_a_run_calls_itself_is_escaped(page):
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_runs_are_told_apart_by_their_order_and_not_by_an_age_that_may_be_wrong(tree, comparison):
    text = words(tree.xpath("//main")[0])
    assert "Ratios are run 2 \u00f7 run 1: above 1 it took longer in run 2." in text
    heads = tree.xpath('//table[@id="main-table"]/thead//button')
    assert [words(head) for head in heads][2:5] == ["run 1", "run 2", "ratio"]
    assert heads[4].get("title").endswith("relative to the baseline's own shift")
    for said in (text, answer(comparison), shown(comparison)):
        assert not re.search("newer|older", said)


def test_the_table_has_every_cell_with_its_verdict(tree, comparison):
    rows = tree.xpath('//table[@id="main-table"]/tbody/tr')
    assert len(rows) == len(comparison.last.cells)
    first = [words(cell) for cell in rows[0]]
    assert first[0] == "slow"
    assert first[6] == SLOWER
    assert rows[0][6].get("class") == "outcome bad"
    assert float(rows[0][4].get("data-value")) == pytest.approx(1.06, abs=0.006)
    assert first[7].startswith("beyond \u00b11")
    own = next(row for row in rows if words(row[0]) == "plain baseline")
    assert (words(own[6]), words(own[7])) == (
        "no verdict",
        "the baseline: its own shift between the runs",
    )


def test_faster_is_only_said_of_what_is(tree):
    for row in tree.xpath('//table[@id="main-table"]/tbody/tr'):
        said = words(row)
        assert (FASTER in said) == (words(row[0]) == "fast")
        assert (SLOWER in said) == (words(row[0]) == "slow")


def test_the_heat_map_marks_verdicts_by_symbol_colour_and_hatch(tree):
    rows = {words(row[0]): row for row in tree.xpath('//table[contains(@class, "heat")]/tbody/tr')}
    assert all(words(cell).startswith("\u25b2") for cell in rows["slow"][1:])
    assert all(words(cell).startswith("\u25bc") for cell in rows["fast"][1:])
    assert all(cell.get("class").startswith("h-") for cell in rows["fast"][1:])
    for cell in rows["plain baseline"][1:]:
        assert cell.get("class") == "failed"


def test_what_differs_is_a_table(tree):
    rows = tree.xpath('//section[@id="answer"]//table/tbody/tr')
    said = {words(row[0]): [words(cell) for cell in row[1:]] for row in rows}
    assert said["Driver"] == ["580.1", HOSTILE]
    assert said["Commit"] == ["not recorded", "aaaabbbbcccc"]
    assert "torch" not in said


def test_the_download_needs_no_network(tree):
    (link,) = tree.xpath("//a[@download]/@href")
    document = json.loads(base64.b64decode(link.partition(",")[2]))
    assert document["schema_version"] == 1


def test_no_folder_of_the_machine_is_told(page, pair):
    assert str(pair.folder) not in page
    for link in re.findall(r'href="data:[^,]*,([^"]*)"', page):
        assert str(pair.folder) not in base64.b64decode(link).decode()


def test_identifiers_are_unique_and_anchors_lead_somewhere(tree):
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))
    for target in tree.xpath('//a[starts-with(@href, "#")]/@href'):
        assert target[1:] in ids


# ---- answers ----


def test_the_answer_counts_and_names_the_worst(comparison):
    said = answer(comparison)
    assert said.startswith(f"Of 12 cells, 2 are {SLOWER} (most: 1.06")
    assert re.search(rf"2 are {FASTER} \(most: 0\.9.*\], fast at (small|large)\)", said)
    question, control = (cards(comparison)[i] for i in (0, 2))
    assert (question.answer, question.detail) == ("2 cells", "slow")
    assert control.answer == "plain"


def test_nothing_is_called_faster_between_different_machines(refused):
    tree = lxml.html.document_fromstring(render_comparison(refused))
    assert "different machines" in words(tree.xpath('//aside[@class="replayed"]')[0])
    main = words(tree.xpath('//table[@id="main-table"]/tbody')[0])
    assert "faster" not in main
    assert "slower" not in main
    assert main.count("no verdict") == 14
    assert "2.0" in main, "the numbers are shown"
    heat = tree.xpath('//table[contains(@class, "heat")]')[0]
    assert not set("\u25b2\u25bc=") & set(words(heat))
    figure = words(tree.xpath("//figure")[0])
    assert "faster" not in figure
    assert "slower" not in figure
    assert answer(refused).startswith("No verdict on durations: different machines.")
    said = shown(refused)
    assert "faster" not in said
    assert "slower" not in said
    assert "NVIDIA A100" in said


def test_nothing_changed_is_an_answer_too(pair):
    said = answer(pair.compare(pair.copy()))
    assert f"none is {SLOWER} and none is {FASTER}" in said


def test_a_baseline_alone_is_not_judged(pair):
    alone = pair.compare(pair.copy(), only="variant=plain")
    assert answer(alone).startswith("The runs have no cell but the baseline's in common")


def test_the_table_is_searched_and_sorted_in_a_browser(page, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(page)
    tree = opened(file, "#?find=large+fast&sort=main-table.4.descending")
    shown_rows = [
        row for row in tree.xpath('//table[@id="main-table"]/tbody/tr') if row.get("hidden") is None
    ]
    assert [words(row[0]) for row in shown_rows] == ["fast"]
    assert words(tree.xpath('//output[@id="count"]')[0]) == "1 of 14 rows"


# ---- several runs ----


def test_a_history_has_all_runs_oldest_first(history):
    table = runs_table(history)
    assert [column.head.partition(" ")[0] for column in table.columns] == ["1", "2", "3"]
    said = {row.name: [datum.text for datum in row.data] for row in table.lines}
    assert said["Blocks"][0] == "8"
    assert (said["Commit"][1], said["Driver"][1]) == ("aaaabbbbcccc", HOSTILE)
    assert said["Uncommitted changes"][1] == "yes"
    tree = lxml.html.document_fromstring(render_comparison(history))
    section = tree.xpath('//section[@id="history"]')[0]
    assert section.xpath(".//figure//svg[@role='img']")
    rows = section.xpath(".//table[1]/tbody/tr")
    slow = next(row for row in rows if words(row[0]) == "slow")
    assert [words(slow[place]) for place in (6, 9)] == [SLOWER, SLOWER]


def test_a_history_lists_the_cells_that_moved_first(history):
    rows = durations_table(history).lines
    assert {row.name for row in rows[:6]} == {"slow", "fast", "odd"}
    assert len(rows) == 14
    assert [len(row.data) for row in rows] == [1 + 2 + 3 + 3] * 14


def test_the_figure_is_given_each_run_and_each_verdict(history):
    panels = history_marks(history)
    assert len(panels) <= MOST_PANELS
    slow = [mark for title, marks in panels.items() if title.startswith("slow\n") for mark in marks]
    roles = {(mark.place, mark.role) for mark in slow}
    assert roles == {(0, "other"), (1, "baseline"), (2, "baseline")}, "orange where it is SLOWER"
    assert all(mark.low <= mark.high for mark in slow)


def test_a_run_without_a_cell_leaves_a_gap(pair):
    second, third = pair.copy(), pair.copy({"slow..": 1.3}, created="2026-12-03T08:00:00+00:00")
    plan = json.loads((second / "plan.json").read_text())
    plan["cells"] = [cell for cell in plan["cells"] if cell["id"] != "slow..large"]
    (second / "plan.json").write_text(json.dumps(plan))
    found = pair.compare(second, third)
    row = next(
        row
        for row in durations_table(found).lines
        if (row.name, row.data[0].text) == ("slow", "large")
    )
    assert [row.data[place].raw is None for place in (1, 3, 6)] == [False, True, False]
    assert "not measured in this run" in row.data[3].title
    render_comparison(found)


# ---- the console ----


def test_the_console_says_what_the_page_says(comparison):
    said = shown(comparison)
    assert said.index("Driver") < said.index("\nslow ") < said.index("\nfast ")
    assert f"Of 12 cells, 2 are {SLOWER}" in " ".join(said.split())


def test_the_console_shows_a_history(history):
    said = shown(history)
    assert "Cells over the runs" in said
    assert "2026-12-02" in said


def test_names_of_kernels_are_no_markup(pair):
    newer = pair.copy(environment={"driver": "[bold]no[/bold]"})
    assert "[bold]no[/bold]" in shown(pair.compare(newer))


def test_environments_that_recorded_nothing_are_shown(pair):
    newer = pair.copy()
    for run in (newer,):
        change_json(run / "run.json", environment={"driver": None, "git_commit": None})
    assert "not recorded" in shown(pair.compare(newer))
