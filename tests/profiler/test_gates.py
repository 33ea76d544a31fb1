"""`--fail-on regression[:PERCENT]`: what trips it, and what never does."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.errors import UsageError
from profiler.findings.gates import (
    Bound,
    Gate,
    not_judged,
    parse_gate,
    parse_run_gate,
    regressions,
    tripped_message,
)
from profiler.model import Verdict

ROWS = {
    "bad": (Verdict.SLOWER, 1.10, 1.08, 1.12),
    "worse": (Verdict.SLOWER, 1.50, 1.40, 1.60),
    "slight": (Verdict.SLOWER, 1.03, 1.015, 1.04),
    "faster": (Verdict.FASTER, 0.80, 0.78, 0.82),
    "same": (Verdict.SAME, 1.001, 0.999, 1.003),
    "unclear": (Verdict.UNCLEAR, 2.0, 1.9, 2.1),
    "withheld": (None, 3.0, 2.9, 3.1),
    "absent": (Verdict.NO_DATA, float("nan"), float("nan"), float("nan")),
}


def frame(*names):
    rows = [(name, *ROWS[name]) for name in names or ROWS]
    return pd.DataFrame(rows, columns=["cell", "verdict", "ratio", "ratio_low", "ratio_high"])


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("regression", 0.0),
        ("regression:2", 2.0),
        ("regression:2%", 2.0),
        ("regression:0.5%", 0.5),
        ("regression: .5 %", 0.5),
        (" regression:10 ", 10.0),
    ],
)
def test_gates_are_read(text, percent):
    assert parse_gate(text) == Gate(percent)
    assert parse_gate(str(parse_gate(text))) == parse_gate(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slower",
        "regression:",
        "regression:-1",
        "regression:two",
        "regression:nan",
        "regression:2%%",
        "regression:1e9",
        "regression:2:3",
        "improvement:2%",
        "regression 2",
        "duration>120us",  # a bound
    ],
)
def test_bad_gates_are_refused_by_name(text):
    with pytest.raises(UsageError, match="--fail-on") as refused:
        parse_gate(text)
    assert "regression:2" in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("percent", "tripping"),
    [
        (0, ["worse", "bad", "slight"]),
        (1.4, ["worse", "bad", "slight"]),
        (2, ["worse", "bad"]),  # the near end of `slight` is 1.5 %, though its estimate is 3 %
        (9, ["worse"]),
        (40, []),
    ],
)
def test_only_slower_beyond_the_threshold_trips_the_slowest_first(percent, tripping):
    assert regressions(frame(), Gate(percent))["cell"].tolist() == tripping


def test_a_slower_without_an_interval_does_not_trip():
    rows = frame("bad").assign(ratio_low=float("nan"))
    assert regressions(rows, Gate()).empty


def test_verdicts_from_a_file_count_like_our_own():
    rows = frame().assign(
        verdict=lambda all_: [None if v is None else str(v) for v in all_.verdict]
    )
    assert regressions(rows, Gate(2))["cell"].tolist() == ["worse", "bad"]


def test_without_verdicts_nothing_trips_and_it_is_said():
    assert "nothing was judged" in not_judged(frame().iloc[:0], Gate()), "as without a baseline"
    assert "nothing was judged" in not_judged(frame("withheld"), Gate())


def test_undecided_cells_are_counted():
    assert "3 of 8 cells are undecided" in not_judged(frame(), Gate(2))
    assert not_judged(frame("bad", "same"), Gate()) == ""


def test_the_message_names_the_cells_and_their_numbers():
    message = tripped_message(regressions(frame(), Gate(2)), Gate(2))
    first_line = f"--fail-on regression:2%: 2 cells are {Verdict.SLOWER.word}"
    assert message.splitlines()[0].startswith(first_line)
    assert "  worse: 1.500\u00d7 [1.400, 1.600]" in message
    assert "slight" not in message
    factors = frame("bad").assign(ratio=13.862, ratio_low=13.1, ratio_high=14.2)
    assert "  bad: 13.862\u00d7 [13.100, 14.200]" in tripped_message(factors, Gate(2))
    many = pd.concat([frame("bad")] * 25, ignore_index=True)
    assert tripped_message(many, Gate()).splitlines()[-1] == "  and 5 more"


@given(
    low=st.floats(0.5, 3),
    width=st.floats(0, 1),
    percent=st.floats(0, 100),
    verdict=st.sampled_from([*Verdict, None]),
)
def test_a_gate_trips_exactly_where_all_of_the_interval_is_beyond(low, width, percent, verdict):
    rows = pd.DataFrame(
        {
            "cell": ["a"],
            "verdict": pd.Series([verdict], dtype=object),
            "ratio": [low + width / 2],
            "ratio_low": [low],
            "ratio_high": [low + width],
        }
    )
    tripped = not regressions(rows, Gate(percent)).empty
    assert tripped == (verdict is Verdict.SLOWER and low > 1 + percent / 100)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("duration>120us", Bound("duration", ">", 120.0, "us")),
        (" duration_ns > 1.5 ms ", Bound("duration_ns", ">", 1.5, "ms")),
        ("l2_hit_pct<60", Bound("l2_hit_pct", "<", 60.0, "")),
        ("registers>.5", Bound("registers", ">", 0.5, "")),
    ],
)
def test_bounds_are_read(text, bound):
    assert parse_run_gate(text) == bound == parse_run_gate(str(bound))


@pytest.mark.parametrize("text", ["duration", "duration>", ">3", "duration>=3us", "duration>3 kg"])
def test_what_is_no_bound_says_how_one_looks(text):
    with pytest.raises(UsageError, match=r"regression:2 .* like duration>120us"):
        parse_run_gate(text)
