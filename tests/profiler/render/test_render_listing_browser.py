"""Every line of explained kernels, and any metric against any other, in a browser.

Skipped where there is no Chromium, or none that starts.
"""

import pytest
from browser_pages import open_page
from explained_runs import answer_pair, softmax_findings

from profiler.analyse.why.sass_code import common_instructions
from profiler.render.page import render_page

ROWS = """() => [...document.querySelectorAll("#listing tbody tr")].map((row) =>
  [...row.cells].map((cell) => cell.textContent))"""


@pytest.fixture(scope="module")
def findings():
    return softmax_findings()


@pytest.fixture(scope="module")
def pair(findings):
    return answer_pair(findings)


@pytest.fixture(scope="module")
def page(findings, browser, tmp_path_factory):
    file = tmp_path_factory.mktemp("listing") / "page.html"
    file.write_text(render_page(findings), encoding="utf-8")
    opened = open_page(browser, file.as_uri())
    opened.page.locator("#listing").scroll_into_view_if_needed()
    opened.page.locator("#listing tbody tr").first.wait_for()
    yield opened.page
    assert opened.console == []
    opened.page.context.close()


def listings(pair):
    return [why.kernels[0].profile.listing for why in (pair.first, pair.second)]


def every_row(page):
    while page.locator("#listing .scroll > button").count():
        page.locator("#listing .scroll > button").click()
    return page.evaluate(ROWS)


def test_each_instruction_stands_once_beside_the_same_one_of_the_other(page, pair):
    first, second = listings(pair)
    rows = every_row(page)
    only = {sign: [row[2] for row in rows if row[0] == sign] for sign in ("", "+", "\u2212")}
    assert len(only[""]) + len(only["+"]) == len(first.instructions)
    assert len(only[""]) + len(only["\u2212"]) == len(second.instructions)
    common = common_instructions(second, first)
    for sign, kernel, side in (("\u2212", second, 0), ("+", first, 1)):
        sass = kernel.instructions["sass"].drop(index=[places[side] for places in common])
        assert only[sign] == [text.strip() for text in sass]


def test_heads_sort_and_words_of_a_search_must_all_be_there(page):
    search = page.locator("#listing input")
    page.locator("#listing th button", has_text="executed").first.click()
    search.fill("ldg e")
    rows = page.evaluate(ROWS)
    assert rows
    assert all("LDG" in row[2] for row in rows)
    counts = [float(row[4].replace("\u202f", "")) for row in rows if row[4][-1].isdigit()]
    assert counts == sorted(counts, reverse=True)
    search.fill("")


def test_source_lines_add_up_the_instructions_of_their_own_kernel(page, pair):
    first, _ = listings(pair)
    code = first.instructions[first.instructions["line"].notna()]
    page.locator("#listing select").nth(1).select_option(label="source line")
    rows = {row[1]: row for row in every_row(page) if row[0] != "\u2212"}
    names = code["file"].str.rpartition("/")[2] + ":" + code["line"].astype(str)
    samples = code["samples_not_issued"].groupby(names).sum()
    whole = first.instructions["samples_not_issued"].sum()
    assert set(rows) == set(names)
    for name, count in samples.items():
        assert float(rows[name][3].split("\u202f")[0]) == pytest.approx(
            100 * count / whole, abs=0.051
        )


def test_any_metric_stands_against_any_other(page, findings):
    across, upwards, at = (page.locator("#scatter select").nth(place) for place in range(3))
    across.select_option(value="registers")
    upwards.select_option(value="duration_ns")
    at.select_option(value="")
    dots = page.evaluate(
        """() => [...document.querySelectorAll("#scatter circle")].map(({ dataset, attributes }) =>
          [Number(dataset.cell), Number(attributes.cx.value), Number(attributes.cy.value)])"""
    )
    cells = {findings.programs.cell_numbers[cell.id]: cell for cell in findings.programs.cells}
    assert len(dots) == len(cells)
    for place, metric, sign in ((1, "registers", 1), (2, "duration_ns", -1)):
        ordered = sorted(dots, key=lambda dot: sign * dot[place])
        values = [findings.numbers.value(cells[dot[0]], metric).median for dot in ordered]
        assert values == pytest.approx(sorted(values), rel=1e-3)
