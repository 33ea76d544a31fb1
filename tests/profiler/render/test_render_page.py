"""The page as a browser meets it: parsed, with hostile names inside."""

import dataclasses
import math
import re
from collections import Counter

import pytest
from as_read import unpacked, words
from lxml.html import document_fromstring
from synthetic_report import (
    HOSTILE,
    HOSTILE_NAME,
    make_report,
    problems,
    with_metrics,
    without,
)

from profiler.errors import UsageError
from profiler.findings.find import find
from profiler.model import CellStatus, Outcome, Verdict
from profiler.notices import Notice, NoticeKind
from profiler.render import embed
from profiler.render.html import moment
from profiler.render.page import render_page
from profiler.render.tables import heats
from profiler.render.words.cards import cards
from profiler.render.words.signs import OUTCOME_WORDS
from profiler.render.words.verdicts import details


def test_is_one_file_of_bearable_size(page):
    assert page.startswith("<!DOCTYPE html>")
    assert len(page.encode()) < 2_000_000


def test_ids_are_unique(tree):
    counts = Counter(tree.xpath("//@id"))
    assert [name for name, count in counts.items() if count > 1] == []


def test_links_inside_the_page_have_targets(tree):
    ids = set(tree.xpath("//@id"))
    for link in tree.xpath("//@href"):
        assert link.startswith("#"), link
        assert link[1:] in ids, link


def test_nothing_is_fetched(page, tree):
    for attribute in ("src", "href", "action", "data", "poster", "srcset"):
        for value in tree.xpath(f"//@{attribute}"):
            assert not re.match(r"(?i)\s*(https?:)?//", value)
    style = "".join(tree.xpath("//style/text()"))
    assert "@import" not in style
    assert "url(" not in style
    for match in re.finditer(r"url\(([^)]*)\)", page):
        assert match[1].startswith("#"), match[0]
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert "default-src 'none'" in policy


def test_hostile_names_are_text_only(page, tree):
    assert tree.xpath("//img") == []
    assert len(tree.xpath("//script")) == 2
    assert tree.xpath("//b[text()='quoted' or contains(., 'quoted')]") == []
    for name in tree.xpath("//@*[starts-with(name(), 'on')]"):
        raise AssertionError(f"event handler in the page: {name}")
    shown = "".join(tree.xpath("//main//text()"))
    assert HOSTILE in shown
    assert HOSTILE_NAME in shown
    assert "</script><img" not in page


def data_of(tree):
    (source,) = tree.xpath("//script[@id='data']/text()")
    return unpacked(source)


def test_embedded_data_parses_back(findings, tree):
    data = data_of(tree)
    assert data["schema_version"] == 1
    assert data["variants"][1]["name"] == HOSTILE_NAME
    cells = findings.programs.cells
    assert data["cells"]["id"] == [cell.id for cell in cells]
    for name in ("variant", "problem"):
        ids = [data[f"{name}s"][place]["id"] for place in data["cells"][name]]
        assert ids == [getattr(cell, name).id for cell in cells]
    assert data["cells"]["outcome"].count("compile_failed") == 12
    metrics = {metric["name"]: metric["summary"] for metric in data["metrics"]}
    number = {cell.id: index for index, cell in enumerate(cells)}
    fields = tuple(metrics["duration_ns"])
    assert fields == (*embed.SUMMARY_FIELDS, "source")
    values = {
        (cell, metric): value
        for (cell, metric), value in findings.numbers.values.items()
        if cell in number
    }
    assert len(values) > 20 * len(findings.programs.correct_cells)
    for (cell, metric), value in values.items():
        for field in fields:
            got, expected = metrics[metric][field][number[cell]], getattr(value, field)
            if isinstance(expected, str):
                assert got == expected
            elif math.isfinite(expected):
                assert got == pytest.approx(expected, rel=1e-5)
            else:
                assert got is None


def test_every_comparison_covers_every_cell(findings, tree):
    data, cells = data_of(tree), findings.programs.cells
    assert [one["key"] for one in data["comparisons"]] == ["reference", "best", "first", "previous"]
    by_key = {comparison["key"]: comparison["ratios"] for comparison in data["comparisons"]}
    for table, baseline in zip(by_key.values(), findings.verdicts.baselines, strict=True):
        for name in ("ratio", "low", "high"):
            assert len(table[name]) == len(cells)
            assert all(ratio is None or ratio > 0 for ratio in table[name])
        titles = table["title"]
        pairs = [baseline.verdicts[cell.id] for cell in cells]
        judged = [n for n, pair in enumerate(pairs) if pair.verdict is not None]
        assert [titles[n] for n in judged] == [details(pairs[n]) for n in judged]
    options = tree.xpath("//select[@id='baseline']/option/@value")
    assert options == [one["key"] for one in data["comparisons"]]


@pytest.mark.usefixtures("undrawn")
def test_a_page_of_very_many_cells_says_nothing_twice(findings, page, tree, monkeypatch):
    monkeypatch.setattr(heats, "MANY_CELLS", len(findings.programs.cells) - 1)
    html = render_page(findings)
    large = document_fromstring(html)
    assert len(html) < 0.98 * len(re.sub("<svg.*?</svg>", "<svg></svg>", page, flags=re.DOTALL))
    assert data_of(large) == data_of(tree)
    all_rows = "//table[@id='main-table']/tbody/tr"
    assert len(large.xpath(all_rows)) == len(tree.xpath(all_rows))
    targets = {row.get("id") for row in large.xpath("//*[@id]")}
    links = [link for link in large.xpath("//a/@href") if link.startswith("#")]
    assert links
    assert {link.removeprefix("#") for link in links} <= targets


def test_every_figure_says_what_it_shows_and_has_a_table(tree):
    drawings = tree.xpath("//svg")
    assert len(drawings) > 20
    for drawing in drawings:
        assert drawing.get("role") == "img"
        assert len(drawing.get("aria-label")) > 20
        (figure,) = drawing.xpath("ancestor::figure")
        assert words(figure.find("figcaption"))
        if figure.get("id") == "figure-first":
            continue  # its numbers stand in the main table
        parent = figure.getparent()
        twins = parent.xpath("./details[contains(@class, 'twin')][.//table or @data-metric]")
        assert twins, figure.get("id")


def test_figures_use_colours_of_the_page_only(tree):
    sheets = tree.xpath("//svg/style/text()")
    assert len(sheets) == len(tree.xpath("//svg"))
    for style in sheets:
        for colour in re.findall(r"(?:fill|stroke): ([^;}]+)", style):
            assert colour == "none" or colour.startswith("var(--"), style


def test_raw_numbers_stand_beside_the_formatted_ones(tree):
    values = tree.xpath("//@data-value")
    assert len(values) > 1000
    for value in values:
        float(value)
    for cell in tree.xpath("//tr[@data-cell]/td[not(@data-value) and not(@class)]"):
        if text_of := words(cell):
            assert re.fullmatch(r"[-\d.,e+ ]+|fp\d+", text_of), (
                "without a raw number the text is one"
            )
    for cell in tree.xpath("//td[normalize-space(.)='\u2013']"):
        assert cell.get("data-value") is None
        assert cell.get("title"), "a missing value says why"


def test_heads_sort_by_real_buttons(tree):
    heads = tree.xpath("//table[contains(@class, 'sortable')]/thead//th")
    assert heads
    for head in heads:
        assert head.get("aria-sort") == "none"
        assert head.find("button").get("type") == "button"


def test_main_table_has_every_cell_once(findings, tree):
    rows = tree.xpath("//table[@id='main-table']/tbody/tr")
    assert len(rows) == len(findings.programs.cells)
    assert {int(row.get("data-cell")) for row in rows} == set(range(len(rows)))
    lengths = {len(row) for row in rows}
    assert lengths == {len(tree.xpath("//table[@id='main-table']/thead//th"))}


def test_an_alias_is_a_name_in_the_rows_of_the_program_it_is(report, findings, tree):
    """What is planned twice is measured once: no row is missing, each names both."""
    ((owner, (alias,)),) = findings.programs.aliases.items()
    assert len(findings.programs.cells) == len(report.plan.cells) - len(findings.programs.problems)
    name = next(one.name for one in findings.programs.variants if one.id == owner)
    numbers = {
        number for number, cell in enumerate(findings.programs.cells) if cell.variant.id == owner
    }
    rows = [
        words(row)
        for row in tree.xpath("//table[@id='main-table']/tbody/tr")
        if int(row.get("data-cell")) in numbers
    ]
    assert len(rows) == len(findings.programs.problems)
    assert all(name in row and alias in row for row in rows)


def test_wrong_results_are_never_ranked(findings, tree):
    """The wrong kernel of the synthetic run is ten times as fast as anything else."""
    wrong = {
        number
        for number, cell in enumerate(findings.programs.cells)
        if findings.programs.status(cell).outcome is Outcome.WRONG_RESULT
    }
    heads = [words(head) for head in tree.xpath("//table[@id='main-table']/thead//th")]
    found = 0
    for row in tree.xpath("//table[@id='main-table']/tbody/tr"):
        if int(row.get("data-cell")) not in wrong:
            continue
        found += 1
        for column in ("ratio", "rank"):
            assert "none" in row[heads.index(column)].get("class").split()
            assert row[heads.index(column)].get("data-value") is None
        assert words(row[heads.index("outcome")]) == "wrong result"
    assert found == len(wrong) > 0
    said = "//p[@class='answer'] | //div[@class='cards' or @class='sentences']"
    for part in tree.xpath(said):
        assert "vector-b64-v1" not in words(part)
    drawn = tree.xpath("//figure[@id='figure-first']//*[@data-cell]/@data-cell")
    assert drawn
    assert not wrong & set(map(int, drawn))


def test_every_section_is_there_in_order(tree):
    sections = tree.xpath("//main/section/@id")
    assert sections == ["answer", "figures", "table", "why", "build", "method"]
    assert tree.xpath("//nav/a/@href") == [f"#{name}" for name in sections]


def test_every_cell_has_its_row_outcome_and_cause(findings, tree):
    rows = {
        int(row.get("data-cell")): row for row in tree.xpath("//table[@id='main-table']/tbody/tr")
    }
    causes = data_of(tree)["cells"]["cause"]
    for number, cell in enumerate(findings.programs.cells):
        status = findings.programs.status(cell)
        (outcome,) = rows[number].xpath("./td[contains(@class, 'outcome')]")
        assert words(outcome) == OUTCOME_WORDS[status.outcome]
        assert (causes[number] or "") == status.cause


def test_without_the_script_the_page_says_where_all_metrics_are(tree):
    (said,) = tree.xpath("//section[@id='table']//p[contains(@class, 'without-js')]")
    assert "summary.csv and summary.json beside this page" in words(said)
    tables = tree.xpath("//details[@data-metric]")
    assert tables
    for table in tables:
        assert "summary.csv beside this page" in words(table)


def test_the_compiler_is_quoted(tree):
    (error,) = tree.xpath("//section[@id='build']//details[@class='error']//pre/text()")
    assert error.startswith("softmax.cu(12): error:")


SLOWDOWN = re.compile(
    "(\\d[\\d.]*(\u202f%|\u00d7)|no|[Pp]ercent) slower|far slower|How much slower"
    "|shown (to be )?slower"
)
"""What a slowdown is called: how far a number is from the lowest one, which is no verdict."""


def without_slowdowns(text):
    return SLOWDOWN.sub("", text)


def test_only_verdicts_say_faster_or_slower(tree):
    """A verdict is written in capitals; beside it only slowdowns, which have a number."""
    text_of_page = without_slowdowns(" ".join(tree.xpath("//main//text()")))
    for word in ("faster", "slower", "Faster", "Slower"):
        assert word not in text_of_page


def test_unknown_kind_is_refused():
    small = make_report(variant_count=2, problem_list=problems()[:1])
    with pytest.raises(UsageError, match="mosaic"):
        render_page(find(without(small, kind="mosaic")))


@pytest.mark.parametrize("baseline", [None, "not-in-the-plan"])
@pytest.mark.usefixtures("undrawn")
def test_page_without_a_baseline(baseline):
    small = make_report(variant_count=4, problem_list=problems()[:2], baseline=None)
    plan = dataclasses.replace(small.plan, baseline=baseline)
    page = render_page(find(without(small, plan=plan, replay=None)))
    assert "replayed" not in page.partition("<main")[0].partition("</style>")[2]
    assert "the best of each problem" in page
    assert "has the lowest number at" in page


@pytest.mark.usefixtures("undrawn")
def test_page_of_one_problem():
    page = render_page(find(make_report(variant_count=4, problem_list=problems()[:1])))
    assert "At fp16 512\u00d71024 the best is" in page
    assert "figure-lines-duration_ns" not in page


@pytest.mark.usefixtures("undrawn")
def test_page_of_nothing_measured():
    full = make_report(variant_count=4, problem_list=problems()[:2])
    empty = without(
        full,
        samples=full.measured.samples.iloc[:0],
        summary=full.measured.summary.iloc[:0],
        statuses={},
        builds=(),
    )
    page = render_page(find(empty))
    assert "No variant has a correct and measured result." in page
    assert "0 of 8 cells measured" in page
    assert "Nothing was built" in page


@pytest.mark.usefixtures("undrawn")
def test_page_with_few_blocks_has_no_interval():
    report = make_report(variant_count=4, problem_list=problems()[:2], blocks=1)
    findings = find(with_metrics(report, "duration_ns"))
    page = render_page(findings)
    assert "1 block; a verdict needs 6 or more" in page
    assert f"? {Verdict.UNCLEAR.word}" in page
    assert all(len(winner.candidates) == 4 for winner in findings.ranking.deciding_winners.values())
    assert ", not shown slower" in cards(findings)[0].detail, "one block shows nothing"


@pytest.mark.usefixtures("undrawn")
def test_more_problems_than_figures_are_counted():
    many = tuple(
        type(problems()[0])(f"p{n}", f"p{n}", {"rows": n, "columns": 1024}) for n in range(1, 19)
    )
    report = make_report(variant_count=3, problem_list=many)
    page = render_page(find(with_metrics(report, "duration_ns")))
    assert "2 more problems have no figure of their own" in page


@pytest.mark.usefixtures("undrawn")
def test_the_first_screen_has_the_most_frequent_cause_of_failures_and_a_link_to_the_rest():
    full = make_report(variant_count=5, problem_list=problems()[:2])
    _, wrong, *others = full.plan.variants[:4]
    statuses = dict(full.statuses)
    for cell in full.plan.cells:
        if cell.variant == wrong:
            statuses[cell.id] = CellStatus(cell.id, Outcome.WRONG_RESULT, cause="off by <3>")
        elif cell.variant in others:
            statuses[cell.id] = CellStatus(cell.id, Outcome.RAISED, cause="ValueError: no\nmore")
    page = render_page(find(with_metrics(without(full, statuses=statuses), "duration_ns")))
    tree = document_fromstring(page)
    (failed,) = tree.xpath("//section[@id='answer']//li[contains(., 'cells failed')]/span[1]")
    assert failed.text_content() == (
        "6 of 10 cells failed: 4 raised, 2 wrong result. The most frequent: 2 variants "
        "(naive-b64-v1, shared-b64-v1) at 2 problems: ValueError: no (every cell)"
    )
    assert failed.xpath("./a/@href") == ["#table"]
    assert tree.xpath("//section[@id='table']")


def test_notices_without_remedy_and_of_a_timer_run():
    small = make_report(variant_count=3, problem_list=problems()[:1])
    notice = Notice(NoticeKind.DUPLICATE_CODE, {"count": 1, "pairs": "<i>a</i> = b"})
    page = render_page(find(with_metrics(without(small, notices=(notice,)), "duration_ns")))
    assert "&lt;i&gt;a&lt;/i&gt; = b" in page


def test_times_read_well():
    assert moment("2026-03-04T05:06:07+00:00") == "2026-03-04 05:06 UTC"
    assert moment("2026-03-04T05:06:07") == "2026-03-04 05:06"
    assert moment("yesterday") == "yesterday"
