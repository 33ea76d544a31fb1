"""Imported launches: groups, console table and page."""

import math

import lxml.html
import pandas as pd
from as_read import printed
from synthetic_report import HOSTILE

from profiler.notices import Notice, NoticeKind
from profiler.render.imported import imported_text, render_imported
from profiler.render.imported_launches import group_launches, launches_page

LAUNCHES = pd.DataFrame(
    {
        "id": [0, 1, 2, 3],
        "kernel": [HOSTILE, HOSTILE, "gemm", "gemm"],
        "grid_size": ["(8, 1, 1)", "(8, 1, 1)", 132.0, None],
        "block_size": ["(64, 1, 1)", "(64, 1, 1)", 384.0, None],
        "stream": ["7"] * 4,
        "nvtx": [()] * 4,
        "duration_ns": [1000.0, 3000.0, 9000.0, math.nan],
        "l2_hit_pct": [50.0, math.nan, math.nan, math.nan],
        "launch__waves": [1.5, 1.5, 2.0, 2.0],
        "policy": ["spread"] * 4,
    }
)


def imported_page(launches, notices, files, csv=""):
    shown = launches_page(launches, group_launches(launches))
    return render_imported(shown, files, notices, csv=csv)


def shown(launches, width=160):
    return printed(imported_text(launches_page(launches, group_launches(launches))), width)


def test_groups_by_kernel_grid_and_block_with_medians():
    groups = group_launches(LAUNCHES)
    assert groups.table[["kernel", "grid_size", "launches"]].to_numpy().tolist() == [
        ["gemm", "132", 1],
        [HOSTILE, "(8, 1, 1)", 2],
        ["gemm", "", 1],
    ]
    assert groups.metrics == ("duration_ns", "l2_hit_pct", "launch__waves")
    assert groups.shown == ("duration_ns", "l2_hit_pct")
    _, hostile, unknown = groups.table.to_dict("records")
    assert [hostile[name] for name in groups.metrics] == [2000.0, 50.0, 1.5]
    assert hostile["total_ns"] == 4000.0
    assert math.isnan(unknown["duration_ns"])
    assert math.isnan(unknown["total_ns"]), "an unknown time is not 0"


def test_the_page_says_and_shows_which_kernel_takes_the_time():
    long = f"gemm<{'float, ' * 40}int>(float*)"
    launches = LAUNCHES.replace({"kernel": {"gemm": long}})
    page = lxml.html.document_fromstring(imported_page(launches, (), ["a.csv"]))
    (answer,) = page.find_class("answer")
    assert answer.text_content().startswith("gemm takes 69.2\u202f% of the 13.00\u202f\u00b5s of 4")
    drawn = [text.text_content() for text in page.xpath("//figure//*[local-name()='text']")]
    assert {"gemm", "9.000\u202f\u00b5s, 69.2\u202f%"} <= set(drawn)
    assert page.xpath("//*[contains(@class, 'clamp')]/text()") == [long] * 4, (
        "two rows, two launches"
    )
    untimed = imported_page(LAUNCHES.drop(columns="duration_ns"), (), ["a.csv"])
    assert 'id="answer"' not in untimed


def test_no_launches():
    assert len(group_launches(LAUNCHES.iloc[:0])) == 0
    assert "0 launches of 0 kinds" in imported_page(LAUNCHES.iloc[:0], (), ["a.csv"])


def test_without_durations_the_most_frequent_is_no_time():
    groups = group_launches(LAUNCHES.drop(columns="duration_ns"))
    assert groups.table["total_ns"].isna().tolist() == [True] * 3


def test_page_escapes_and_says_what_is_missing():
    notice = Notice(NoticeKind.CSV_TRUNCATED, {"file": "<a>.csv", "rows": 4})
    page = imported_page(LAUNCHES, (notice,), ["<a>.csv"])
    tree = lxml.html.document_fromstring(page)
    assert tree.xpath("//img") == []
    assert len(tree.xpath("//script")) == 1
    assert tree.xpath("//h1/text()") == ["<a>.csv"]
    kernels = tree.xpath("//section[@id='kinds']//tbody/tr/th/text()")
    assert kernels == ["gemm", HOSTILE, "gemm"]
    assert "ends in the middle of a row" in tree.xpath("//ul[@class='notices']")[0].text_content()
    dashes = tree.xpath("//section[@id='kinds']//td[@class='none']")
    assert dashes
    for dash in dashes:
        assert dash.get("title") == "not in the file"
        assert dash.get("data-value") is None
    for value in tree.xpath("//@data-value"):
        float(value)
    assert len(tree.xpath("//section[@id='launches']//tbody/tr")) == 4


def test_long_traces_are_cut_with_a_word():
    many = pd.concat([LAUNCHES] * 600, ignore_index=True)
    tree = lxml.html.document_fromstring(imported_page(many, (), ["a.csv"]))
    assert len(tree.xpath("//section[@id='launches']//tbody/tr")) == 2000
    assert "400 more" in tree.xpath("//section[@id='launches']")[0].text_content()


LONG = f"void kernel<{'Policy, ' * 20}float>(float *)"
"""182 characters."""


def kernels_at(width, *names):
    """First column of the table of launches of these kernels."""
    launches = pd.DataFrame(
        {
            "id": range(len(names)),
            "kernel": names,
            "grid_size": "(1, 1, 1)",
            "block_size": "(32, 1, 1)",
            "stream": "7",
            "nvtx": [()] * len(names),
            "duration_ns": [1e3 * (len(names) - number) for number in range(len(names))],
            **dict.fromkeys(("cycles", "registers", "dram_read_bytes", "l2_hit_pct"), 50.0),
        }
    )
    lines = shown(launches, width).splitlines()
    return [line.partition("  ")[0] for line in lines if "(1, 1, 1)" in line]


def test_a_kernel_is_cut_only_where_its_column_has_no_room():
    assert kernels_at(270, LONG) == [LONG]
    (cut,) = kernels_at(240, LONG)
    assert "\u2026" in cut
    assert 150 < len(cut) < 180
    (least,) = kernels_at(120, LONG)
    assert len(least) < 61
    # Two that would be cut to the same text stay whole, and a third one has their column.
    alike = [f"{LONG[:90]}{digit}{LONG[91:]}" for digit in "12"]
    *whole, third = kernels_at(240, *alike, f"{LONG}_and_{'more_' * 20}")
    assert whole == alike
    assert "\u2026" in third
    assert len(third) > 180


def test_console_table():
    text = shown(LAUNCHES)
    assert "4 launches of 3 kinds" in text
    assert "gemm" in text
    assert "50.0" in text


def many_kinds(count, name="kernel"):
    """Launches of kernels that all have names of their own."""
    metrics = {f"sm__counted_{number}": 1.5 + number for number in range(30)}
    return pd.DataFrame(
        {
            "id": range(count),
            "kernel": [f"{name}_{number}" for number in range(count)],
            "grid_size": "(1, 1, 1)",
            "block_size": "(32, 1, 1)",
            "nvtx": [()] * count,
            "duration_ns": [1e3 + number for number in range(count)],
            **metrics,
        }
    )


def test_of_many_kinds_the_page_lists_the_first_and_says_where_all_are():
    launches = many_kinds(1100)
    page = imported_page(launches, (), ["a.csv"], csv="a.kinds.csv")
    tree = lxml.html.document_fromstring(page)
    assert "1100 launches of 1100 kinds" in tree.xpath("//p[@class='lead']")[0].text_content()
    kinds, metrics = (tree.xpath(f"//section[@id='{name}']")[0] for name in ("kinds", "metrics"))
    names = kinds.xpath(".//tbody/tr/th/text()")
    assert names == [f"kernel_{1099 - number}" for number in range(1000)]
    rest = "The first 1000 of 1100 kinds are listed, and all metrics of the first 258; all are in "
    assert f"{rest}a.kinds.csv." in tree.text_content()
    assert len(metrics.xpath("./details")) == 8000 // 31
    assert set(tree.xpath("//p/a/@href")) == {"a.kinds.csv"}
    assert not group_launches(launches).whole_on_page
    assert "all are in what --json writes" in lxml.html.document_fromstring(
        imported_page(launches, (), ["a.csv"])
    ).text_content().replace("\n", " ")


def test_names_of_any_length_make_no_page_beyond_five_megabytes():
    for launches in (many_kinds(2000, "very_" * 200), many_kinds(3, "&" * 10**6)):
        assert len(imported_page(launches, (), ["a.csv"])) < 5_000_000


def test_few_kinds_are_all_on_the_page():
    assert group_launches(LAUNCHES).whole_on_page
    assert "are listed" not in imported_page(LAUNCHES, (), ["a.csv"])
