"""Small files that would unpack, expand or run without end meet a limit with a name."""

import gzip
import json

import pytest

from profiler.errors import ParseError, SpecError, UsageError
from profiler.parse import bounded_files, runner_journal
from profiler.parse.bounded_files import read_packed
from profiler.parse.chrome_trace import read_traces
from profiler.parse.clock_file import read_clocks
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.planning.plan import make_plan
from profiler.planning.session_plans import MAX_VISITS
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.planning.spec.source import parse_value, read_document
from profiler.run_folder.documents import read_json

SMALL = 2**20
BOMB = gzip.compress(b"\0" * (8 * SMALL))


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(bounded_files, "MAX_UNPACKED_BYTES", SMALL)
    monkeypatch.setattr(runner_journal, "MAX_JOURNAL_BYTES", SMALL)


# ---- packed files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("any.gz", read_packed),
        ("plan.json.gz", read_json),
        ("clocks.csv.gz", read_clocks),
        ("ncu.csv.gz", read_ncu_csv),
        ("trace.json.gz", lambda path: read_traces([path])),
    ],
)
def test_a_packed_file_without_end_is_refused_and_the_limit_is_named(
    tmp_path, small_limit, name, read
):
    path = tmp_path / name
    path.write_bytes(BOMB)
    with pytest.raises((ParseError, UsageError), match="MAX_UNPACKED_BYTES"):
        read(path)


def test_what_is_packed_within_the_limit_is_read(tmp_path):
    path = tmp_path / "plan.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"text": "x" * SMALL}).encode()))
    assert len(read_json(path)["text"]) == SMALL


def test_of_a_journal_without_end_the_beginning_is_kept_and_the_rest_counted(tmp_path, small_limit):
    record = json.dumps({"event": "session_started", "time": 1.0})
    path = tmp_path / "journal.jsonl.gz"
    path.write_bytes(gzip.compress(f"{record}\n".encode() + b" " * (8 * SMALL)))
    content = runner_journal.read_whole_journal(tmp_path / "journal.jsonl")
    assert [record["event"] for record in content.records] == ["session_started"]
    assert content.skipped == 1


# ---- experiment files ----------------------------------------------------------------------------


def merge_bomb(levels):
    merges = ("[" + ", ".join([f"*a{level}"] * 9) + "]" for level in range(levels))
    lines = (f"a{level}: &a{level} {{<<: {merge}}}" for level, merge in enumerate(merges, 1))
    return "\n".join(["a0: &a0 {k: 1, l: 2}", *lines])


@pytest.mark.parametrize("text", [merge_bomb(8), "a: &a {b: 1, <<: *a}", "a: &a {<<: [*a]}"])
def test_a_text_that_grows_without_end_by_merging_is_refused(tmp_path, text):
    assert len(text) < 700
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match="MAX_MERGED_KEYS"):
        read_document(path)


def test_a_value_of_the_command_line_that_grows_is_refused():
    with pytest.raises(ValueError, match="MAX_MERGED_KEYS"):
        parse_value("{" + merge_bomb(8).replace("\n", ", ") + "}")


def test_merged_keys_and_aliases_that_stay_small_are_read(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("base: &base {a: 1}\nmore: {<<: *base, b: [*base, *base]}\n")
    assert read_document(path).data["more"] == {"a": 1, "b": [{"a": 1}, {"a": 1}]}


@pytest.mark.parametrize("field", ["blocks", "repeats", "warmups", "final_blocks", "launches"])
@pytest.mark.parametrize("value", [10**18, "1e18", 10**30])
def test_counts_beyond_all_measuring_are_refused_by_name(tmp_path, field, value):
    where = f"timeline: {{launches: {value}}}" if field == "launches" else f"{field}: {value}"
    path = tmp_path / "spec.yaml"
    path.write_text(
        "name: x\nworkload: ./workload.py\nvariants: {list: [a]}\n"
        f"problems: {{list: [p]}}\ncollect: {{{where}}}\n"
    )
    (tmp_path / "workload.py").write_text("")
    with pytest.raises(SpecError, match=field):
        load_spec(path)


def test_more_visits_than_a_day_holds_are_refused(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(
        "name: x\nworkload: ./workload.py\nvariants: {list: [a, b]}\n"
        f"problems: {{list: [p]}}\ncollect: {{blocks: {MAX_VISITS}}}\n"
    )
    (tmp_path / "workload.py").write_text("")
    loaded = load_spec(path)
    with pytest.raises(SpecError, match="MAX_VISITS"):
        make_plan(loaded, space_of(loaded))
