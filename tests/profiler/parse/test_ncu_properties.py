"""The parser's laws, on tables and damage that nobody thought of."""

import gzip
from functools import cache

import numpy as np
import pandas as pd
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ncu_samples import (
    HEAD,
    LAUNCH,
    PUSH_POP,
    all_captures,
    capture,
    known_values,
    quoted,
    raw_page,
)

from profiler.errors import ParseError
from profiler.parse.ncu_csv import parse_ncu_csv
from profiler.parse.ncu_launches import LAUNCH_COLUMNS
from profiler.parse.ncu_numbers import C_LOCALE, CONTINENTAL, base_unit, parse_number

UNITS = ["", "ns", "us", "msecond", "byte", "Kbyte", "Gbyte/s", "Ghz", "%", "inst", "sector/us"]
FRAGMENTS = [
    b'"', b'""', b'","', b",", b"\n", b"\r\n", b"\0", b"\xff", b"==ERROR== x", b'"ID",', b"no data",
    b'"ID","Process ID"', b"1e999", b"99999999999999999999999", b"(!) nan", b"True", b"\xa0", b";",
    b"\t", b"Metric Name", b'"Metric Name","Metric Value"', b"0x1F", b"1,2,3", b"\xef\xbb\xbf",
    b"inf", b"1_0", "١٢".encode(), b'"0","1","', b"\xff\xfe", b"\x1f\x8b",
]  # fmt: skip

metric_names = st.from_regex(r"[a-z]{2,6}__[a-z]{1,8}(\.(sum|avg|max))?", fullmatch=True)
numbers = st.one_of(
    st.none(),
    st.integers(min_value=-(10**15), max_value=10**15),
    st.floats(min_value=-1e12, max_value=1e12).map(lambda x: round(x, 2)),
)
# Line ends never stand in kernel names; NUL is dropped, and surrogates are no text.
plain_text = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\0\r\n"), max_size=30
)
noise = st.sampled_from(
    ["", "loss 0.25", "a,b,c", '"quoted", he said', "==PROF== Connected", "1,2"]
)


def cell(number):
    return "no data" if number is None else f"{number:,}"


@cache
def data_of(name):
    """A capture short enough to be parsed hundreds of times."""
    lines = capture(name).splitlines(keepends=True)
    return b"".join(lines[:15])


@cache
def rows_of(name):
    return known_values(parse_ncu_csv(data_of(name)).launches)


@st.composite
def tables(draw):
    """Names, units, and values of one raw page."""
    names = draw(st.lists(metric_names, min_size=1, max_size=6, unique=True))
    units = [draw(st.sampled_from(UNITS)) for _ in names]
    count = draw(st.integers(min_value=1, max_value=5))
    values = [[draw(numbers) for _ in range(count)] for _ in names]
    return names, units, values


@given(table=tables(), between=st.lists(noise, max_size=4), newline=st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_comes_back(table, between, newline):
    names, units, values = table
    page = raw_page(
        {
            name: (unit, [cell(value) for value in column])
            for name, unit, column in zip(names, units, values, strict=True)
        },
        newline=newline,
    )
    lines = page.splitlines()
    for position, line in enumerate(between):
        lines.insert(2 * position, line)
    launches = parse_ncu_csv(newline.join([*lines, ""])).launches
    assert launches["id"].tolist() == list(range(len(values[0])))
    for name, unit, column in zip(names, units, values, strict=True):
        _, factor = base_unit(unit)
        want = [np.nan if value is None else value * factor for value in column]
        np.testing.assert_allclose(launches[name].to_numpy(float), want, rtol=1e-12)


@given(kernel=plain_text, process=plain_text, more=plain_text)
@example(kernel='f("a","b")', process='"', more='","')
@example(kernel='"', process="", more='""')
def test_any_text_survives_in_the_columns_of_a_launch(kernel, process, more):
    rows = [[str(i), "17", process, "host", kernel, "1", "7", str(i)] for i in range(2)]
    rows.append(["2", "17", more, "host", more, "1", "7", "2"])
    table = parse_ncu_csv(quoted([*HEAD, "a__b.sum"], [""] * 8, *rows))
    missing = ("", "n/a")
    want = [None if name in missing else name for name in (kernel, kernel, more)]
    got = [None if pd.isna(name) else name for name in table.launches["kernel"]]
    assert got == want
    assert table.launches["a__b.sum"].tolist() == [0, 1, 2]
    assert table.notices == ()


@given(names=st.lists(st.from_regex(r"[A-Za-z0-9_.=:;|/-]{1,20}", fullmatch=True), max_size=4))
def test_range_names_come_back(names):
    items = [f'"profiler:{name}:none:none:none:none:none:none"' for name in names]
    push_pop = f"475  {'  '.join(items)} " if names else ""
    head = [*HEAD[:4], PUSH_POP, *HEAD[4:], "a__b.sum"]
    row = [*LAUNCH[:4], push_pop, *LAUNCH[4:], "1"]
    ranges = parse_ncu_csv(quoted(head, [""] * 9, row)).launches["nvtx"][0]
    assert [(r.domain, r.name, r.thread) for r in ranges] == [("profiler", n, 475) for n in names]


@given(value=st.floats(min_value=-1e12, max_value=1e12).map(lambda x: round(x, 2)))
def test_both_ways_to_separate_digits(value):
    text = f"{value:,.2f}"
    swapped = text.replace(",", " ").replace(".", ",").replace(" ", ".")
    assert parse_number(text, C_LOCALE) == value
    assert parse_number(swapped, CONTINENTAL) == value


@given(name=st.sampled_from(all_captures()), data=st.data())
@settings(max_examples=75)
def test_rows_of_a_cut_file_are_the_first_rows_of_the_whole_file(name, data):
    whole = data_of(name)
    end = data.draw(st.integers(min_value=0, max_value=len(whole)))
    try:
        table = parse_ncu_csv(whole[:end])
    except ParseError:
        return
    rows, want = known_values(table.launches), rows_of(name)
    # Of the last launch of a details page some metrics may be on the far side of the cut.
    split = max(len(rows) - 1, 0) if table.page == "details" else len(rows)
    assert rows[:split] == want[:split]
    for row, full in zip(rows[split:], want[split : len(rows)], strict=True):
        assert row.items() <= full.items()


@st.composite
def damage(draw, length):
    """One change: bytes replaced, taken out, or put in."""
    start = draw(st.integers(min_value=0, max_value=length))
    gone = draw(st.sampled_from([0, 0, 1, 2, 50, 1000]))
    new = draw(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=4)))
    return start, gone, new


@given(name=st.sampled_from(all_captures()), packed=st.booleans(), data=st.data())
@settings(max_examples=100)
def test_damaged_captures_raise_nothing_but_our_own_error(name, packed, data):
    content = gzip.compress(data_of(name), 1) if packed else data_of(name)
    for start, gone, new in data.draw(st.lists(damage(len(content)), min_size=1, max_size=8)):
        content = content[:start] + new + content[start + gone :]
    assert_law(content)


@given(content=st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes_raise_nothing_but_our_own_error(content):
    assert_law(content)
    assert_law(b'"ID","Process ID","Kernel Name","a__b.sum"\n' + content)
    assert_law(b'"ID","Kernel Name","Metric Name","Metric Value"\n' + content)


def assert_law(content):
    try:
        table = parse_ncu_csv(content)
    except ParseError:
        return
    assert tuple(table.launches.columns[: len(LAUNCH_COLUMNS)]) == LAUNCH_COLUMNS
    assert table.launches.columns.is_unique
    assert not np.isinf(table.launches.select_dtypes("float64").to_numpy()).any()
