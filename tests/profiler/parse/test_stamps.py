"""Stamps of kernels: words of a buffer as what each warpgroup did from when to when."""

import gzip
import json

import pytest
import stamped

from profiler.errors import ParseError
from profiler.model import Visit
from profiler.parse.stamps import StampedOperation, kernel_stamps, read_stamps
from profiler.runner.protocol import STAMPS_FILE

SECOND = 1_000_000_000


def group(stamps, *, number=0, block=0, began=(SECOND, 1000), ended=(SECOND + 500, 2000), sm=5):
    return [block, number, stamped.words(stamps, began, ended, sm)]


def spans(*groups, **changes):
    return kernel_stamps(stamped.line(groups, **changes)).spans


def test_an_activity_lasts_until_the_next_and_the_last_until_the_end():
    rows = spans(group([(2, 1100), (3, 1300)]))
    assert rows.to_numpy().tolist() == [
        [0, 0, 5, "start_scores", 50.0, 150.0],
        [0, 0, 5, "wait_for_scores", 150.0, 500.0],
    ]


def test_the_lower_bits_of_the_clock_may_turn_over_between_stamps():
    turn = 2**stamped.CLOCK_BITS
    stamps = [(1, turn - 10), (2, turn + 90)]
    rows = spans(group(stamps, began=(SECOND, turn - 110), ended=(SECOND + 150, turn + 190)))
    assert list(rows["start_ns"]) == [50.0, 100.0]


def test_the_clock_itself_may_turn_over():
    rows = spans(
        group([(1, 2**32 + 100)], began=(SECOND, 2**32 - 100), ended=(SECOND + 150, 2**32 + 200))
    )
    assert list(rows["start_ns"]) == [100.0]


def test_warpgroups_of_a_block_are_set_by_their_clock_and_blocks_by_the_global_timer():
    # The global timer is coarser than the clock: of the second warpgroup it is late.
    rows = spans(
        group([(1, 1000)]),
        group([(1, 1040)], number=1, began=(SECOND + 32, 1040), ended=(SECOND + 532, 2040)),
        group([(1, 9000)], block=1, sm=7, began=(SECOND + 64, 9000), ended=(SECOND + 564, 10000)),
    )
    assert list(rows["start_ns"]) == [0.0, 20.0, 64.0]
    assert list(rows["sm"]) == [5, 5, 7]


def test_of_a_full_place_the_last_activity_has_no_end():
    many = stamped.WORDS - stamped.HEAD
    stamps = [(1 + place % 2, 1000 + place) for place in range(many)]
    decoded = kernel_stamps(stamped.line([group(stamps, ended=(SECOND + 5000, 11000))]))
    assert len(decoded.spans) == many - 1
    assert decoded.ends["full"].tolist() == [True]
    assert decoded.ends["end_ns"].tolist() == [5000.0]


def test_a_group_whose_end_is_not_there_is_left_out():
    decoded = kernel_stamps(
        stamped.line([group([(1, 1100)]), group([(1, 1100)], number=1, ended=None)])
    )
    assert decoded.groups == {0: "consumer 1"}


def test_names():
    decoded = kernel_stamps(stamped.line([group([(1, 1100)]), group([(1, 1100)], number=6)]))
    assert decoded.groups == {0: "consumer 1", 6: "group 6"}
    assert decoded.operations == (StampedOperation("Q K^T", "start_scores", "wait_for_scores"),)


def test_a_kernel_that_wrote_nothing_has_no_rows():
    decoded = kernel_stamps(stamped.line([]))
    assert decoded.spans.empty
    assert decoded.groups == {}


@pytest.mark.parametrize(
    "wrong",
    [
        stamped.line([group([(5, 1100)])]),  # there are four activities
        stamped.line([group([(1, 1100)], ended=(SECOND, 1000))]),  # no time passed
        stamped.line([[0, 0, [1] * (stamped.WORDS + 1)]]),
        stamped.line([[0, 0, [-1] * 9]]),
        stamped.line([], activities=""),
        stamped.line([], operations="Q K^T from here to there"),
        stamped.line([], operations="Q K^T: start_scores to nowhere"),
        {"cell": "plain--small", "block": 0, "arm": 0},
        ["no", "mapping"],
    ],
)
def test_a_damaged_file_is_named(tmp_path, wrong):
    with gzip.open(tmp_path / f"{STAMPS_FILE}.gz", "wt") as stream:
        stream.write(json.dumps(wrong) + "\n")
    with pytest.raises(ParseError, match=rf"{STAMPS_FILE}.gz: damaged"):
        read_stamps(tmp_path)


def test_each_visit_is_a_member_of_its_own(tmp_path):
    for cell, block in (("a--x", 0), ("b--x", 0), ("a--x", 0)):
        with gzip.open(tmp_path / f"{STAMPS_FILE}.gz", "at") as stream:
            stream.write(json.dumps(stamped.ping_pong(cell=cell, block=block)) + "\n")
    assert set(read_stamps(tmp_path)) == {Visit("a--x", 0), Visit("b--x", 0)}


def test_no_file_is_no_stamps(tmp_path):
    assert read_stamps(tmp_path) == {}
