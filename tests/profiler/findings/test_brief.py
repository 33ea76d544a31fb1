"""What a program gets of a check: errors, and how many blocks would settle what is open."""

import json
import math
from pathlib import Path

import pytest
from recorded import RECORDINGS, findings_of_recording, report_of_recording

from profiler.commands import report
from profiler.commands.check import check
from profiler.commands.requests import CheckRequest
from profiler.errors import ExitCode, ProfilerError, UsageError
from profiler.findings import find
from profiler.findings.brief import MOST_BYTES, BriefDocument, blocks_to_settle
from profiler.findings.verdicts import PairVerdict, Reason, Resolution
from profiler.model import Verdict

TRANSPOSE = RECORDINGS / "transpose.zip"


@pytest.fixture
def _found_once(monkeypatch):
    """Whole recordings are read and found once in a worker; what is asked of a part is not."""
    real_read, real_find, whole = report.read_run, find.find, {}

    def read_run(run, **part):
        if any(part.values()):
            return real_read(run, **part)
        finished = report_of_recording(run.archive)
        whole[id(finished)] = run.archive
        return finished

    def found(report):
        recording = whole.get(id(report))
        return real_find(report) if recording is None else findings_of_recording(recording)

    monkeypatch.setattr(report, "read_run", read_run)
    monkeypatch.setattr(find, "find", found)


of_recordings = pytest.mark.usefixtures("_found_once")


def checked(capsys, target, **fields):
    """Exit code and document of a check whose JSON goes to stdout."""
    try:
        code = check(CheckRequest(Path(target), json_target="-", **fields))
    except ProfilerError as error:
        code = error.exit_code
    text = capsys.readouterr().out
    assert len(text.encode()) <= MOST_BYTES
    document = json.loads(text)
    BriefDocument.model().model_validate(document)
    return code, document


def unclear(ratio, *, margin=0.01, detectable=math.nan, half=math.nan, blocks=8):
    return PairVerdict(
        Verdict.UNCLEAR,
        Reason.MORE_BLOCKS_NEEDED,
        ratio=ratio,
        low=ratio - half,
        high=ratio + half,
        resolution=Resolution(margin, detectable=detectable),
        blocks=blocks,
    )


@pytest.mark.parametrize(
    ("pairs", "blocks"),
    [
        ([unclear(1.03, detectable=0.09)], 72),  # three times as fine: nine times as many
        ([unclear(0.97, detectable=0.09)], 72),
        ([unclear(1.03, detectable=0.031)], 16),  # at least twice as many
        ([unclear(1.002, half=0.024)], 72),  # the interval is to lie within the margin
        ([unclear(1.03, detectable=0.09), unclear(1.03, detectable=0.12)], 128),
        ([unclear(1.0100001, detectable=9.0)], None),  # more than anybody would measure
        ([unclear(1.01, half=0.02)], None),  # on the edge of the margin
        ([PairVerdict(Verdict.UNCLEAR, Reason.NOT_MEASURED, ratio=1.03, blocks=8)], None),
        ([], None),
    ],
)
def test_blocks_that_would_settle_a_verdict(pairs, blocks):
    assert blocks_to_settle(pairs) == blocks


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("syntax.py", "def inputs(:\n", "syntax.py:1"),
        ("empty.py", "", "defines no profiler.Experiment"),
        ("alone.py", "def inputs(n=3):\n    return n\n", "alone.py:1: alone has no variants"),
        ("needs.py", "def inputs(n):\n    return n\n\n\ndef f(n): ...\n", "the inputs take n"),
        (
            "two\nlines.py",
            "def inputs():\n    return 3\n\n\ndef f(n): ...\n",
            "must not contain control characters",
        ),
        ("absent.py", "import nowhere_at_all\n", "absent.py:1: ModuleNotFoundError"),
        ("keys.yaml", "name: x\nvariant: {}\n", "keys.yaml"),
        ("long.yaml", "name: x\n" + "".join(f"key_{n}: 1\n" for n in range(500)), "long.yaml"),
        ("nothing.yaml", None, "there is no such file"),
        ("no_such_experiment", None, "neither a run folder nor an experiment"),
    ],
)
@pytest.mark.usefixtures("forked_interpreters")
def test_an_error_is_in_the_document(capsys, tmp_path, name, text, says):
    target = tmp_path / name if "." in name else Path(name)
    if text is not None:
        target.write_text(text)
    code, document = checked(capsys, target, out=tmp_path)
    assert code == document["exit_code"] == ExitCode.BAD_USAGE
    assert says in document["error"]["message"]
    assert document["verdicts"] == document["failures"] == document["answer"] == []


@of_recordings
def test_a_bound_fails_a_recording_by_its_interval(capsys):
    code, document = checked(capsys, TRANSPOSE, fail_on="duration>1s")
    assert code == document["exit_code"] == ExitCode.COMPLETE
    code, document = checked(capsys, TRANSPOSE, fail_on="duration>100us")
    assert code == document["exit_code"] == ExitCode.GATE_TRIPPED


@of_recordings
def test_references_that_are_slower_trip_no_gate(capsys):
    hopper = RECORDINGS / "hopper_causal.zip"
    code, document = checked(capsys, hopper, fail_on="regression", only="variant=sdpa_flash")
    assert {row["verdict"] for row in document["verdicts"]} == {"slower"}
    assert code == ExitCode.COMPLETE
    code, _ = checked(capsys, hopper, fail_on="regression")
    assert code == ExitCode.GATE_TRIPPED


@of_recordings
@pytest.mark.parametrize(
    ("gate", "says"),
    [
        ("nothing>3", "this run has no nothing; it has duration_ns, "),
        ("duration>3", "duration_ns comes in ns"),
        ("registers>3us", "registers comes in "),
    ],
)
def test_a_bound_that_does_not_fit_names_what_there_is(gate, says):
    with pytest.raises(UsageError, match=says):
        check(CheckRequest(TRANSPOSE, fail_on=gate))


@of_recordings
def test_another_variant_may_be_compared_with(capsys):
    _, document = checked(capsys, TRANSPOSE, against="padded")
    assert document["baseline"] == "padded"
    assert {row["variant"] for row in document["verdicts"]}.isdisjoint({"padded"})


@of_recordings
def test_a_lone_kernel_of_a_run_is_told_what_it_loses_time_to(capsys):
    planted = Path(__file__).parents[3] / "benchmarks/why/recording.zip"
    _, document = checked(capsys, planted, only="case=tail_wave,planted=1", against="planted")
    assert document["best"] == document["costs"]["variant"] == "planted"
    assert document["costs"]["causes"][0]["name"] == "tail_wave"
    assert document["why"] is None
    _, document = checked(capsys, planted)
    assert document["best"] == document["baseline"] == "plain", "as its first sentence says"
    assert (document["costs"]["variant"], document["costs"]["problem"]) == (
        document["why"]["variant"],
        document["why"]["problem"],
    )
