"""Notices: every kind has a template, and the code gives every value that it needs."""

import ast
import string
from functools import cache
from pathlib import Path

import pytest

import profiler
from profiler.notices import (
    Notice,
    NoticeKind,
    Severity,
    fold,
    in_one_line,
    remedy,
    severity,
    text,
)
from profiler.parse.ncu_csv import parse_ncu_csv

SOURCES = sorted(Path(profiler.__file__).parent.rglob("*.py"))


def fields(kind):
    """Values that the template of a kind needs."""
    template = kind.text + kind.remedy
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


@cache
def mentioned():
    """Kinds that some code makes a notice of."""
    found = set()
    for file in SOURCES:
        source = file.read_text("utf-8")
        if "Notice(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Notice":
                kind = node.args[0]
                assert isinstance(kind, ast.Attribute), f"{file}: a notice of no certain kind"
                found.add(NoticeKind[kind.attr])
    return found


def test_every_kind_has_a_text_and_is_used():
    assert set(NoticeKind) == mentioned()
    for kind in NoticeKind:
        assert kind.text
        assert isinstance(kind.severity, Severity)


def counts(kind):
    """Fields that are numbers with words for one and for several."""
    parsed = string.Formatter().parse(kind.text)
    return {name for _, name, spec, _ in parsed if name and "|" in (spec or "")}


@pytest.mark.parametrize(("count", "words"), [(1, "1 cell gave a"), (2, "2 cells gave a")])
def test_a_number_has_the_words_for_one_or_for_several(count, words):
    assert words in text(Notice(NoticeKind.WRONG_RESULTS, {"count": count, "cells": "a, b"}))


def test_words_are_sentences_that_can_be_filled():
    for kind in NoticeKind:
        values = dict.fromkeys(fields(kind), "{x}") | dict.fromkeys(counts(kind), 3)
        notice = Notice(kind, values)
        assert severity(notice) in Severity
        assert text(notice)[-1] in ".}", kind  # what a tool said ends as the tool likes
        assert "{x}" in text(notice) or "3 " in text(notice) or not values, kind
        assert remedy(notice) == "" or remedy(notice).endswith((".", "].", "}.")), kind
        assert remedy(notice) or severity(notice) is not Severity.ERROR, kind


HEAD = '"ID","Kernel Name","gpu__time_duration.sum"\n'
UNITS = '"","","ns"\n'
ROW = '"0","k","5"\n'


@pytest.mark.parametrize(
    ("csv", "kind", "expected"),
    [
        (HEAD + UNITS + ROW + '"1","k', "csv_truncated", "the 1 complete rows"),
        (HEAD + UNITS + ROW + '"1","k"\n' + ROW, "csv_bad_rows", "1 row does not fit"),
        (HEAD + ROW, "csv_no_units", "no units row"),
        (HEAD + UNITS + ROW + '"1","k","much"\n', "csv_bad_cells", "first: much"),
        ("==ERROR== LaunchFailed\n" + HEAD + UNITS + ROW, "csv_tool_message", "LaunchFailed"),
    ],
)
def test_the_parser_gives_what_its_template_needs(csv, kind, expected):
    (notice,) = parse_ncu_csv(csv, "some.csv").notices
    assert notice.kind.key == kind
    assert text(notice).startswith("some.csv: ")
    assert expected in text(notice)
    assert "{" not in text(notice) + remedy(notice)


def test_a_value_that_is_not_there_is_an_error_and_not_a_gap():
    with pytest.raises(KeyError, match="blocks"):
        text(Notice(NoticeKind.FEW_BLOCKS))


def test_braces_in_a_value_are_kept():
    notice = Notice(NoticeKind.CSV_TOOL_MESSAGE, {"file": "a.csv", "text": "{0} {text.__class__}"})
    assert text(notice) == "a.csv: ncu printed: {0} {text.__class__}"


def test_several_notices_in_one_line_begin_with_the_worst():
    few = Notice(NoticeKind.FEW_BLOCKS, {"blocks": 3, "needed": 6})
    failed = Notice(NoticeKind.FAILED_CELLS, {"count": 2, "total": 9, "causes": "1 crashed: a, b"})
    code = Notice(NoticeKind.DUPLICATE_CODE, {"pairs": "a = b", "count": 1})
    counts, _, clauses = in_one_line(fold([code, few, failed])).partition(": ")
    assert counts == "1 error, 1 warning, 1 note (in full with --verbose, and in the page)"
    assert clauses == (
        "2 of 9 cells failed; Only 3 timing blocks; "
        "The same program under two names, measured once."
    )


def test_a_word_or_two_are_not_the_whole_clause_of_a_notice():
    shared = Notice(NoticeKind.GPU_SHARED, {"session": "ncu-timing", "processes": "process 7"})
    printed = Notice(NoticeKind.CSV_TOOL_MESSAGE, {"file": "a.csv", "text": "an error code (3)"})
    assert in_one_line(fold([shared, printed])).endswith(
        "): ncu-timing: other processes had the GPU open while it was measured; "
        "a.csv: ncu printed: an error code."
    )


def test_remarks_on_the_clocks_are_one_line_and_lose_nothing():
    clocks = [
        Notice(NoticeKind.UNLOCKED_CLOCKS, {"clock_control": "none"}),
        Notice(NoticeKind.POWER_CAPPED, {"session": "a", "share": "3 %", "clocks": "1 to 2"}),
        Notice(NoticeKind.CLOCK_SPREAD, {"session": "b", "spread": "7 %", "clocks": "1 to 2"}),
    ]
    few = Notice(NoticeKind.FEW_BLOCKS, {"blocks": 3, "needed": 6})
    folded = fold([*clocks[:2], few, clocks[2], clocks[1]])
    assert [one.parts for one in folded] == [tuple(clocks), (few,)]
    first, second = folded
    assert first.severity is Severity.WARNING, "that of the most serious part"
    assert "2 sessions" in first.text
    assert (second.text, second.remedy) == (text(few), remedy(few))
