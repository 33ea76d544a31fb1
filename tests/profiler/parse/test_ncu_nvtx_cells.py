import pytest

from profiler.parse.nvtx_cells import NvtxRange, RangeKind, parse_ranges

NONE = "none:none:none:none:none:none"


def pushed(domain, name, thread=475):
    return NvtxRange(domain, name, RangeKind.PUSH_POP, thread)


def started(domain, name):
    return NvtxRange(domain, name, RangeKind.START_END, None)


@pytest.mark.parametrize(
    ("cell", "ranges"),
    [
        ("", []),
        (f'475  "<default domain>:run_0:{NONE}" ', [pushed("", "run_0")]),
        (
            f'475  "<default domain>:kernel:v1:{NONE}"  "<default domain>:run_0:{NONE}" ',
            [pushed("", "kernel:v1"), pushed("", "run_0")],
        ),
        (
            '475  "profiler:dom range:none:none:RGB:0xff:REGISTERED:dom range" ',
            [pushed("profiler", "dom range")],
        ),
        (
            '475  "<default domain>:pkg:Int64:7:RGB:0xff0000:REGISTERED:pkg" ',
            [pushed("", "pkg")],
        ),
        (
            '475  "profiler:a:b:c:none:none:RGB:0xff:REGISTERED:a:b:c" ',
            [pushed("profiler", "a:b:c")],
        ),
        (
            f'475  "d:cell=a..b=1;block=3:{NONE}"  476  "d:x:{NONE}" ',
            [pushed("d", "cell=a..b=1;block=3"), pushed("d", "x", 476)],
        ),
        (f'"d:no thread:{NONE}"', [pushed("d", "no thread", None)]),
        ("what is this", []),
        ('"x"', [pushed("x", "", None)]),
    ],
)
def test_push_pop(cell, ranges):
    assert list(parse_ranges(cell)) == ranges


def test_start_end_items_begin_with_the_id_of_the_range():
    cell = f' "0:<default domain>:SE:name:{NONE}"  "12:profiler:b:{NONE}" '
    assert list(parse_ranges("", cell)) == [started("", "SE:name"), started("profiler", "b")]


def test_both_columns_push_pop_first():
    ranges = parse_ranges(f'1  "d:a:{NONE}" ', f' "0:d:b:{NONE}" ')
    assert [r.name for r in ranges] == ["a", "b"]
    assert [r.kind for r in ranges] == [RangeKind.PUSH_POP, RangeKind.START_END]


def test_a_long_hostile_cell_is_read_in_time():
    assert len(parse_ranges('1  "' + "a:" * 20000 + '" ')) == 1
