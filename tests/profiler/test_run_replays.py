"""`run --fail-on`: the gate at the end of a run, judged by the verdicts of its findings."""

import dataclasses
import io
import json
import math
import re
from pathlib import Path

import pytest
from rich.console import Console

from profiler.commands import run as run_module
from profiler.commands.run import RunRequest, run_experiment
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.findings import document as document_module
from profiler.findings import find as find_module
from profiler.findings.verdicts import PairVerdict, Reason
from profiler.model import Verdict
from profiler.run_folder.archive import unpack
from profiler.run_folder.load import assemble as assemble_module
from profiler.run_folder.load.attempts import AttemptReader
from profiler.sessions.progress import ProgressReporter

ROOT = Path(__file__).parents[2]
NAME = "transpose"
ONLY = "variant=torch|naive|tiled"
SLOW = "naive..rows=4096.columns=4096"


READER = AttemptReader()


@pytest.fixture(autouse=True)
def _read_once(monkeypatch):
    """Attempts of recordings, which no test changes, are read once."""
    monkeypatch.setattr(assemble_module, "AttemptReader", lambda: READER)


def spec_of(name):
    return ROOT / f"experiments/{name}.yaml"


def recording_of(name):
    return ROOT / f"experiments/recordings/{name}.zip"


def judged(findings, verdict):
    """Findings in which one cell has this verdict against the baseline, and all others UNCLEAR."""
    unclear = PairVerdict(Verdict.UNCLEAR, Reason.CLOCK, ratio=2.0, low=1.9, high=2.1, blocks=8)
    against = dict.fromkeys(findings.verdicts.against_baseline, unclear)
    assert SLOW in against
    against[SLOW] = dataclasses.replace(unclear, verdict=verdict)
    return with_verdicts(findings, against)


def with_verdicts(findings, against):
    verdicts = dataclasses.replace(findings.verdicts, against_baseline=against)
    return dataclasses.replace(findings, verdicts=verdicts)


@pytest.fixture(scope="module")
def find_once():
    """Findings of the same replay, which each test changes in its own way."""
    found = []

    def find(report, real=find_module.find):
        if not found:
            found.append(real(report))
        return found[0]

    return find


@pytest.fixture
def replay(tmp_path, monkeypatch, find_once):
    """Replay a recording; `change` is laid over its findings. Gives code, stderr."""

    def run(gate, change, *, quiet=True):
        monkeypatch.setattr(find_module, "find", lambda report: change(find_once(report)))
        out, err = io.StringIO(), io.StringIO()
        reporter = ProgressReporter(
            Console(file=out, width=200), Console(file=err, width=200), quiet=quiet
        )
        request = RunRequest(
            spec=spec_of(NAME),
            out=tmp_path,
            only=ONLY,
            replay=recording_of(NAME),
            no_report=True,
            fail_on=gate,
        )
        return run_experiment(request, reporter), err.getvalue()

    return run


@pytest.mark.parametrize(
    ("gate", "verdict", "code"),
    [
        ("regression", Verdict.SLOWER, ExitCode.GATE_TRIPPED),
        ("regression:80%", Verdict.SLOWER, ExitCode.GATE_TRIPPED),
        ("regression:95%", Verdict.SLOWER, ExitCode.COMPLETE),
        ("regression", Verdict.UNCLEAR, ExitCode.COMPLETE),
        ("regression", Verdict.FASTER, ExitCode.COMPLETE),
    ],
)
def test_a_run_fails_where_a_cell_is_slower_beyond_the_threshold(replay, gate, verdict, code):
    exit_code, err = replay(gate, lambda findings: judged(findings, verdict))
    assert exit_code == code
    assert (f"  {SLOW}: 2.000\u00d7 [1.900, 2.100]" in err) == (code is ExitCode.GATE_TRIPPED)
    if code is ExitCode.COMPLETE:
        assert "undecided and do not trip it" in err


def test_a_bound_names_cells_with_their_unit_and_is_refused_before_anything_is_done(replay):
    exit_code, err = replay("duration>1us", lambda findings: findings)
    assert exit_code == ExitCode.GATE_TRIPPED
    assert re.search(rf"  {SLOW}: [0-9.]+\u202f\u00b5s \[[0-9.]+\u202f\u00b5s, ", err)
    with pytest.raises(UsageError, match="no metric 'durations_ns'; did you mean 'duration_ns'"):
        replay("durations_ns>1us", lambda _: pytest.fail("the run was read"))


def test_a_bound_judges_counters_of_one_sample_and_says_what_is_nearest_to_it(replay):
    def counted_once(findings):
        assert math.isnan(findings.numbers.values[SLOW, "l2_hit_pct"].low)
        return findings

    exit_code, err = replay("l2_hit_pct<99.99", counted_once)
    assert exit_code == ExitCode.GATE_TRIPPED
    assert re.search(rf"  {SLOW}: [0-9.]+\u202f%$", err, re.MULTILINE)
    exit_code, err = replay("l2_hit_pct<0.9", counted_once, quiet=False)
    assert exit_code == ExitCode.COMPLETE
    nearest = r"--fail-on l2_hit_pct<0\.9: no cell is beyond it; nearest \S+: [0-9.]+\u202f%$"
    assert re.search(nearest, err, re.MULTILINE)


def test_a_bound_counts_cells_without_its_number(replay):
    def uncounted(findings):
        values = {k: v for k, v in findings.numbers.values.items() if k != (SLOW, "l2_hit_pct")}
        numbers = dataclasses.replace(findings.numbers, values=values)
        return dataclasses.replace(findings, numbers=numbers)

    exit_code, err = replay("l2_hit_pct<0.9", uncounted)
    assert exit_code == ExitCode.COMPLETE
    assert "1 cell has no l2_hit_pct, and nothing was judged there." in err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"live": True}, "Or leave out --live to replay"),
        ({"live": True, "timeline": True}, "Or leave out --live and --timeline to replay"),
    ],
)
def test_flags_that_stand_in_the_way_of_a_recording_are_named(tmp_path, monkeypatch, flags, words):
    monkeypatch.setattr(run_module, "find_machine", no_machine)
    reporter = ProgressReporter(Console(file=io.StringIO()), Console(file=io.StringIO()))
    with pytest.raises(EnvironmentUnusable) as error:
        run_experiment(RunRequest(spec=spec_of(NAME), out=tmp_path, **flags), reporter)
    assert words in error.value.remedy
    spec = tmp_path / "alone.yaml"  # with no recording beside it
    spec.write_text(spec_of(NAME).read_text("utf-8"))
    with pytest.raises(EnvironmentUnusable) as error:
        run_experiment(RunRequest(spec=spec, out=tmp_path, **flags), reporter)
    assert error.value.remedy == "Buy one."


def no_machine(*_arguments, **_settings):
    raise EnvironmentUnusable("No GPU.", remedy="Buy one.")


def test_a_run_without_verdicts_is_not_judged(replay):
    found, err = replay("regression", lambda findings: with_verdicts(findings, {}))
    assert found == ExitCode.COMPLETE
    assert "nothing was judged" in err


def test_without_a_gate_nothing_is_said_of_one(replay):
    found, err = replay(None, lambda findings: judged(findings, Verdict.SLOWER))
    assert found == ExitCode.COMPLETE
    assert "--fail-on" not in err


def replayed(tmp_path, *overrides, name=NAME, only=ONLY, recording=None):
    """Document of a replay with these overrides, and what stderr said."""
    out, err = io.StringIO(), io.StringIO()
    reporter = ProgressReporter(
        Console(file=out, width=200), Console(file=err, width=200), quiet=False
    )
    target = tmp_path / "replay.json"
    request = RunRequest(
        spec=spec_of(name),
        out=tmp_path,
        settings=overrides,
        json_target=str(target),
        only=only,
        replay=recording or recording_of(name),
        no_report=True,
    )
    run_experiment(request, reporter)
    return json.loads(target.read_text()), " ".join(err.getvalue().split())


def test_a_replay_says_which_settings_do_nothing_in_it_and_heeds_the_others(tmp_path):
    plain, _ = replayed(tmp_path)
    settings = ("collect.final_blocks=3", "collect.blocks=[4, 10]")
    found, err = replayed(tmp_path, *settings, "margin_pct=5")
    (notice,) = (one for one in found["notices"] if one["kind"] == "replay_ignores")
    assert "collect.final_blocks=3, collect.blocks=[4, 10]" in notice["text"]
    assert "margin_pct" not in notice["text"]
    assert notice["text"].rstrip(".") in err
    assert "(in full with --verbose, and in the page): " in err
    assert "replay_ignores" not in {one["kind"] for one in plain["notices"]}
    assert found["cells"] != plain["cells"], "the margin is that of the verdicts"


def test_a_page_stands_for_its_run_in_a_replay(tmp_path):
    page = unpack(recording_of(NAME), tmp_path / "run") / "index.html"
    page.touch()
    document, _ = replayed(tmp_path, recording=page)
    assert document["replayed"]["gpu"]


def test_settings_of_a_measurement_change_no_verdict_of_a_replay(tmp_path, monkeypatch):
    """Other numbers of blocks would be other looks, and other p values: of 14 of these cells."""
    # Timelines take half of the time, and have no verdicts.
    monkeypatch.setattr(document_module, "_timeline", lambda findings, cell: None)
    forms = {"name": "softmax_forms", "only": None}
    plain, _ = replayed(tmp_path, **forms)
    found, _ = replayed(tmp_path, "collect.blocks=[4, 8, 16, 32]", **forms)
    assert found["cells"] == plain["cells"]


def test_a_recording_that_has_none_of_the_cells_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has none of these 3 cells") as caught:
        replayed(tmp_path, "problems.matrix.rows=[77]", "problems.matrix.columns=[77]")
    assert re.search(r"It has \d+ others, such as torch\.\.rows=", caught.value.remedy)
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"live": True, "replay": recording_of(NAME)}, "--live measures and --replay does not"),
        ({"mixed": True}, "--mixed: only with --workers"),
        ({"tls_ca": Path("ca.pem")}, "--tls-ca, .*: only with --workers"),
    ],
)
def test_flags_that_would_be_left_out_are_refused(flags, message):
    reporter = ProgressReporter(Console(file=io.StringIO()), Console(file=io.StringIO()))
    with pytest.raises(UsageError, match=message):
        run_experiment(RunRequest(spec=spec_of(NAME), out=Path("reports"), **flags), reporter)


def test_counters_of_a_timer_are_refused_and_those_beside_cupti_are_not(tmp_path):
    reporter = ProgressReporter(Console(file=io.StringIO()), Console(file=io.StringIO()))
    timer = ("collect.collectors=timer",)
    request = RunRequest(spec=spec_of(NAME), out=tmp_path, settings=timer, explain=("all",))
    with pytest.raises(UsageError, match="--explain counts under ncu, and no collector of"):
        run_experiment(request, reporter)
    replayed = dataclasses.replace(
        request, settings=None, fast=True, replay=recording_of(NAME), no_report=True
    )
    assert run_experiment(replayed, reporter) == ExitCode.COMPLETE
