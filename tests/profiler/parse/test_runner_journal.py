"""Records of a journal are checked once, where they are read: odd ones are skipped and counted."""

import gzip
import json
import random

import pytest

from profiler.model import Outcome
from profiler.parse import runner_journal
from profiler.runner import failures

VISIT = {"event": "finished", "time": 1.5, "cell": "a", "phase": "measure", "block": 0}


def read(tmp_path, *lines):
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return runner_journal.read_whole_journal(path)


def test_the_outcomes_that_the_runner_writes_are_those_of_the_model():
    names = ("WRONG_RESULT", "IMPLAUSIBLE", "OUT_OF_MEMORY", "ILLEGAL_ADDRESS", "RAISED")
    written = {getattr(failures, name) for name in names}
    assert written <= {outcome.value for outcome in Outcome}


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**VISIT, "block": None}),
        json.dumps({**VISIT, "block": "0"}),
        json.dumps({**VISIT, "block": True}),
        json.dumps({**VISIT, "block": -1}),
        json.dumps({**VISIT, "arm": 1.5}),
        json.dumps({**VISIT, "cell": 7}),
        json.dumps({**VISIT, "time": "now"}),
        json.dumps({**VISIT, "durations_ns": [1.0, None]}),
        json.dumps({**VISIT, "operators": [{"name": "add"}]}),
        json.dumps({key: value for key, value in VISIT.items() if key != "block"}),
        json.dumps({key: value for key, value in VISIT.items() if key != "cell"}),
        json.dumps({**VISIT, "event": "failed"}),
        json.dumps({**VISIT, "event": "failed", "outcome": "bored"}),
        json.dumps(VISIT).replace("1.5", "1e999"),
        json.dumps(VISIT).replace('"block": 0', '"block": 1e999'),
        "[" * 100_000,
        "[]",
        "null",
        '{"event": 5}',
        "finished",
    ],
)
def test_an_odd_record_is_skipped_and_counted(tmp_path, line):
    content = read(tmp_path, json.dumps(VISIT), line, json.dumps({**VISIT, "block": 1}))
    assert [record["block"] for record in content.records] == [0, 1]
    assert content.skipped == 1


def test_a_line_that_was_cut_off_is_not_odd(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(VISIT) + "\n" + json.dumps(VISIT)[:20])
    assert runner_journal.read_whole_journal(path) == runner_journal.JournalContent((VISIT,), 0)


@pytest.mark.parametrize(
    ("damage", "records"),
    [(lambda packed: packed[:-9], 1), (lambda packed: b"\xff\xfe", 0), (lambda packed: b"", 0)],
    ids=["cut off", "no gzip file", "empty"],
)
def test_a_packed_journal_that_does_not_end_is_odd(tmp_path, damage, records):
    packed = tmp_path / "journal.jsonl.gz"
    packed.write_bytes(gzip.compress(f"{json.dumps(VISIT)}\n".encode()))
    path = tmp_path / "journal.jsonl"
    assert runner_journal.read_whole_journal(path) == runner_journal.JournalContent((VISIT,), 0)
    packed.write_bytes(damage(packed.read_bytes()))
    assert runner_journal.read_whole_journal(path) == runner_journal.JournalContent(
        (VISIT,) * records, 1
    )


def test_errors_of_an_overflow_are_no_odd_numbers(tmp_path):
    wrong = {**VISIT, "event": "failed", "phase": "check", "outcome": "wrong_result"}
    line = json.dumps({**wrong, "max_abs_error": float("inf"), "max_rel_error": float("nan")})
    assert read(tmp_path, line).skipped == 0


@pytest.mark.parametrize("dtypes", ["float16", [16], ["<b>float16</b>"]])
def test_dtypes_of_a_result_are_names(tmp_path, dtypes):
    assert read(tmp_path, json.dumps({**VISIT, "result_dtypes": dtypes})).skipped == 1
    assert read(tmp_path, json.dumps({**VISIT, "result_dtypes": ["float16"]})).skipped == 0


def test_no_flipped_bit_makes_a_reader_stumble(tmp_path):
    draw = random.Random(5)  # noqa: S311 - flips of bits, no secret
    path = tmp_path / "journal.jsonl"
    text = "".join(
        json.dumps({**VISIT, "block": n, "durations_ns": [5.0]}) + "\n" for n in range(9)
    )
    for _ in range(400):
        content = bytearray(text.encode())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        journal_content = runner_journal.read_whole_journal(path)
        assert 7 <= len(journal_content.records) <= 9
        list(runner_journal.finished_visits(journal_content.records))
