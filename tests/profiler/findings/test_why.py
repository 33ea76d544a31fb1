"""The why of runs that were explained: which pairs, what is told of them, and that it adds up."""

import dataclasses
import functools
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from explained_runs import SOFTMAX, answer_pair, with_verdict

from profiler.analyse.samples import with_aliases
from profiler.commands import explain as command
from profiler.commands.explain import ExplainRequest, explain, explained_pair
from profiler.commands.output import report_document
from profiler.commands.report import read_run
from profiler.errors import UsageError
from profiler.findings.document import SummaryDocument
from profiler.findings.find import find
from profiler.findings.verdicts import SAME_PROGRAM, Reason
from profiler.findings.why.cells import LATENCY, cell_why
from profiler.findings.why.document import (
    MOST_BYTES,
    MOST_PARTS,
    ExplanationDocument,
    explain_document,
)
from profiler.findings.why.find import find_why
from profiler.findings.why.pairs import CLOCK
from profiler.model import CellStatus, Outcome, Verdict
from profiler.python.run import Run
from profiler.render.words.why import clock_words
from profiler.run_folder.archive import open_run

ROOT = Path(__file__).parents[3]
TRANSPOSE = ROOT / "experiments/recordings/transpose.zip"
MLP = ROOT / "experiments/recordings/mlp.zip"
TORCH = "torch..columns=16384.rows=8192.dtype=float32"
BEST = "vector-b256-r1-v4..columns=16384.rows=8192.dtype=float32"
NOT_TOLD = [Verdict.SAME, Verdict.UNCLEAR, Verdict.NO_DATA, None]


@pytest.fixture(scope="module")
def findings():
    return findings_of(SOFTMAX)


@functools.cache
def findings_of(run):
    return find(read_run(open_run(run)))


@pytest.fixture(autouse=True)
def _found_once(monkeypatch):
    """Commands read and find a run that no test changes once."""
    monkeypatch.setattr(command, "read_run", lambda run: run.given_path)
    monkeypatch.setattr(command, "find", findings_of)


@pytest.fixture(scope="module")
def pair(findings):
    return answer_pair(findings)


def document_of(findings, pair):
    return explain_document(findings, pair.cell, pair)


def test_the_answer_is_the_best_against_the_baseline(findings, pair):
    assert set(find_why(findings).cells) == {TORCH, BEST}
    assert find_why(findings).pairs == (pair,)
    assert (pair.cell.id, pair.against.id) == (BEST, TORCH)
    assert pair.verdict.verdict is Verdict.FASTER
    compared = {other.against.variant.id: other for other in reversed(find_why(findings).pairs)}
    assert compared[pair.against.variant.id] is pair
    assert pair.cell.variant.id not in compared


def test_the_answer_is_explained_where_a_difference_is_shown():
    """A tie at the problem that takes longest once left the answer without its why."""
    findings = findings_of(TRANSPOSE)
    answer = find_why(findings).answer
    assert answer.cell.problem == findings.ranking.largest_problem
    # Its L2 is 97 % busy with single sectors, at 37 % of its bandwidth: that is no latency.
    assert (answer.second.kernels[0].limit, answer.first.kernels[0].limit) == (
        "l2_units",
        LATENCY,
    )
    # 0.2 of 258 µs: other integer arithmetic went with nothing.
    assert [change.name for change in answer.causes] == ["uncoalesced_loads"]
    tie = dataclasses.replace(answer.verdict, verdict=Verdict.SAME)
    verdicts = {**findings.verdicts.pairs, (answer.cell.id, answer.against.id): tie}
    tied = dataclasses.replace(
        findings, verdicts=dataclasses.replace(findings.verdicts, pairs=verdicts)
    )
    first, second = find_why(tied).pairs
    assert first.shows_difference
    assert (second.cell, second.shows_difference) == (answer.cell, False)
    assert first.cell.variant == second.cell.variant


# ---- what is told, and of which pairs ------------------------------------------------------------


def test_a_difference_that_is_shown_is_explained(pair):
    for verdict, towards in ((Verdict.FASTER, -1), (Verdict.SLOWER, 1)):
        told = with_verdict(pair, verdict)
        assert told.account is not None
        assert told.roof_account is not None, "both are limited by device memory"
        assert told.causes
        assert all(towards * change.difference_ns > 0 for change in told.causes)


def test_the_part_of_the_clock_that_is_there_on_zeros_is_not_power(findings, pair):
    clock_ns = sum(part.ns for part in pair.account.parts if part.name == CLOCK)
    assert "clock_power_ns" not in document_of(findings, pair)
    assert clock_words(pair) == ""
    on_zeros = replace(pair, clocks_on_zeros=(1.9, 1.9))
    assert on_zeros.clock_parts_ns == pytest.approx((clock_ns, 0.0))
    slower = replace(pair, clocks_on_zeros=(1.9, 1.9 * 1.1))
    power_ns, other_ns = slower.clock_parts_ns
    assert power_ns + other_ns == pytest.approx(clock_ns)
    assert other_ns == pytest.approx(0.0953 * slower.account.second_ns, rel=0.2)
    assert document_of(findings, slower)["clock_power_ns"] == pytest.approx(power_ns, rel=1e-4)
    assert "1.90 and 2.09 GHz" in clock_words(slower)


def test_a_difference_that_is_the_clocks_alone_has_an_account(pair):
    """Time is told apart and cycles are not: UNCLEAR, and explained as what the clock made."""
    unclear = replace(pair.verdict, verdict=Verdict.UNCLEAR)
    withheld = replace(pair, verdict=replace(unclear, reason=Reason.CLOCK))
    assert withheld.account.difference_ns == pair.account.difference_ns
    assert withheld.takes_longer == pair.takes_longer
    assert replace(pair, verdict=replace(unclear, reason=Reason.NOISE)).account is None


@pytest.mark.parametrize("verdict", NOT_TOLD)
def test_nothing_is_explained_where_no_difference_is_shown(findings, pair, verdict):
    same = with_verdict(pair, verdict)
    assert (same.account, same.roof_account, same.causes) == (None, None, ())
    document = document_of(findings, same)
    ExplanationDocument.model().model_validate(document)
    assert (document["account"], document["roof_account"]) == (None, None)
    assert document["causes_of_difference"] == []
    assert document["tree"]["limit"] == "dram", "what limits it is told all the same"


def test_causes_that_cost_more_in_the_slower_one_come_by_what_they_cost(pair):
    costs = [abs(change.difference_ns) for change in pair.causes]
    assert costs == sorted(costs, reverse=True)
    assert [change.name for change in pair.causes[:2]] == ["barrier_waits", "few_loads_in_flight"]


def test_a_cell_that_is_wrong_or_was_not_measured_is_not_explained(findings):
    for cell, why in find_why(findings).cells.items():
        assert cell in findings.programs.correct_cells
        assert why.kernels


# Sums on every recording: test_recordings_agree.py.


def test_stall_shares_are_of_all_of_a_warps_time(pair):
    for kernel in (*pair.first.kernels, *pair.second.kernels):
        shares = list(kernel.waits.values())
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) < 1, "issuing and being ready are no waits"


def test_a_speedup_of_the_launch_comes_before_larger_ones_of_a_part_of_it(pair):
    estimates = [("a", 60.0, "local"), ("b", math.nan, None), ("c", 5.0, "global")]
    rules = pd.DataFrame(estimates, columns=["rule", "speedup_pct", "speedup_type"])
    launch = pair.first.kernels[0].profile
    advised = dataclasses.replace(launch, rules=rules.assign(type="OPT", text="do"))
    why = cell_why((advised,), compute_capability="9.0", least_bytes=None)
    assert [advice.rule for advice in why.kernels[0].advice] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("timed_ns", "off"),
    [
        ((279_260.0, 328_540.0), (False, False)),
        ((275_000.0, 328_540.0), (False, False)),  # 53.54 against 49.28 µs: within a tenth
        ((270_000.0, 328_540.0), (True, False)),
        ((279_260.0, 300_000.0), (False, True)),
        ((275_000.0, 332_800.0), (True, True)),
        ((379_260.0, 428_540.0), (False, False)),  # the same difference
        ((math.nan, 328_540.0), (False, False)),
    ],
)
def test_launches_that_differ_otherwise_than_the_timed_ones_are_told(findings, pair, timed_ns, off):
    timed = dataclasses.replace(pair, timed_ns=timed_ns)
    assert timed.off_timing == off
    difference = document_of(findings, timed)["account"]["timed_difference_ns"]
    assert difference == (pytest.approx(timed_ns[0] - timed_ns[1]) if any(off) else None)
    assert with_verdict(timed, Verdict.SAME).off_timing == (False, False), "without an account"


# ---- the document --------------------------------------------------------------------------------


def test_long_names_cost_rows_and_the_document_stays_small(findings, pair):
    variant = dataclasses.replace(pair.cell.variant, name="x" * 700)
    cell = dataclasses.replace(pair.cell, variant=variant)
    document = explain_document(findings, cell, dataclasses.replace(pair, cell=cell))
    assert len(json.dumps(document)) < MOST_BYTES
    ExplanationDocument.model().model_validate(document)
    account = document["account"]
    assert 0 < len(account["parts"]) < MOST_PARTS
    listed = sum(part["ns"] for part in account["parts"])
    assert listed + account["rest_ns"] == pytest.approx(account["difference_ns"], rel=1e-3)


def test_the_summary_has_the_why_of_the_answer(findings):
    document = report_document(findings)
    SummaryDocument.model().model_validate(document)
    why = document["answer"]["why"]
    assert (why["variant"], why["against"]) == ("vector-b256-r1-v4", "torch")
    account = document_of(findings, find_why(findings).pairs[0])["account"]
    assert why["account"]["parts"][: len(account["parts"])] == account["parts"], "4 kB hold fewer"


# ---- the command ---------------------------------------------------------------------------------


def explained(capsys, **flags):
    explain(ExplainRequest(SOFTMAX, json_target="-", **flags))
    return json.loads(capsys.readouterr().out)


def test_the_command_explains_the_answer_or_the_cells_that_are_named(capsys):
    answer = explained(capsys)
    assert (answer["variant"], answer["against"]) == ("vector-b256-r1-v4", "torch")
    assert answer["answer"]["verdict"] == "faster"
    turned = explained(capsys, variant="torch", against="vector-b256-r1-v4")
    assert turned["answer"]["verdict"] == "slower"
    assert turned["account"]["difference_ns"] == -answer["account"]["difference_ns"]
    alone = explained(capsys, variant="torch")
    assert (alone["against"], alone["account"]) == (None, None)
    assert set(alone["answer"]) == {"duration_ns"}


def test_the_command_names_files_that_are_damaged(tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(open_run(SOFTMAX).path, run)
    (run / "raw/ncu-explain.001/sass.csv.gz").write_bytes(b"\xff\xfe")
    explain(ExplainRequest(run))
    assert "ncu-explain.001/sass.csv.gz is damaged" in capsys.readouterr().err


def test_a_problem_is_named_as_pages_or_plans_do(findings, capsys):
    answer = explained(capsys)
    (problem,) = findings.programs.problems
    names = (problem.name, problem.id, problem.id.replace(".", ","))
    assert [explained(capsys, problem=name) for name in names] == [answer] * 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"variant": "torch-naive"},
            "'torch-naive' was not explained at 16384 [^;]*; these are: torch, vector-b256-r1-v4",
        ),
        ({"variant": "torch-naiv"}, "No variant is called 'torch-naiv'; did you mean 'torch-naiv"),
        ({"variant": "nothing"}, "No variant is called 'nothing'; known: torch, [^:]*\\.$"),
        ({"variant": "torch", "against": "torch"}, "'torch' would be compared with itself"),
        ({"problem": "small"}, "No cell of problem 'small' was explained; known: 16384 "),
    ],
)
def test_what_was_not_explained_is_refused(flags, message):
    with pytest.raises(UsageError, match=message):
        explain(ExplainRequest(SOFTMAX, **flags))


def with_alias(findings, name, of):
    """The same run, in which every cell of a variant has the machine code of another's."""
    cells = {(cell.variant.name, cell.problem.id): cell for cell in findings.programs.plan.cells}
    statuses = dict(findings.programs.statuses)
    for (variant, problem), cell in cells.items():
        if variant == name:
            owner = cells[of, problem].id
            statuses[cell.id] = CellStatus(cell.id, Outcome.DUPLICATE, duplicate_of=owner)
    report = findings.report
    aliases = [cell.id for (variant, _), cell in cells.items() if variant == name]
    samples, summary = (
        with_aliases(frame[~frame["cell"].isin(aliases)], statuses)
        for frame in (report.measured.samples, report.measured.summary)
    )
    measured = dataclasses.replace(report.measured, samples=samples, summary=summary)
    return find(dataclasses.replace(report, statuses=statuses, measured=measured))


def test_a_variant_with_the_machine_code_of_another_is_the_same(findings):
    aliased = with_alias(findings, "torch-naive", of="vector-b256-r1-v4")
    asked = ExplainRequest(SOFTMAX, variant="torch-naive", against="vector-b256-r1-v4")
    _, pair = explained_pair(aliased, asked)
    assert (pair.verdict, pair.account) == (SAME_PROGRAM, None)
    explained = Run(aliased, SOFTMAX).explain(asked.variant, against=asked.against)
    answer = explained["answer"]
    assert (answer["verdict"], answer["reason"], answer["ratio"]) == ("same", "same_program", 1)
    assert answer["duration_ns"] == answer["against_ns"]
    _, other = explained_pair(aliased, dataclasses.replace(asked, against="torch"))
    assert other.verdict == answer_pair(findings).verdict, "what was measured of the other name"


def test_named_variants_are_compared_at_the_problem_of_the_answer():
    findings = findings_of(TRANSPOSE)
    answer = find_why(findings).answer
    assert len({pair.cell.problem.id for pair in find_why(findings).pairs}) == 2
    names = {"variant": answer.cell.variant.name, "against": answer.against.variant.name}
    cell, pair = explained_pair(findings, ExplainRequest(TRANSPOSE, **names))
    assert (cell, pair.against, pair.verdict) == (answer.cell, answer.against, answer.verdict)


def test_timelines_tell_why_where_nothing_was_explained(capsys):
    explain(ExplainRequest(MLP, json_target="-"))
    document = json.loads(capsys.readouterr().out)
    ExplanationDocument.model().model_validate(document)
    assert document["tree"] is None
    assert document["timeline"]["busy_pct"] > document["timeline"]["against_busy_pct"] + 5
    explain(ExplainRequest(MLP))
    assert "By their timelines the GPU is busy 88.8" in capsys.readouterr().out


def test_a_run_that_explained_nothing_says_how_to():
    with pytest.raises(UsageError, match="nothing was explained") as raised:
        explain(ExplainRequest(MLP, variant="graphs"))
    assert "--explain" in raised.value.remedy
