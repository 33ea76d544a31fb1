"""Runs against runs: what is compared, what is refused, and what is said about it."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from as_read import strict_json
from run_pairs import Pair
from scaled_runs import TIME, change_json

from profiler.analyse.between_runs import BetweenRunsReason
from profiler.commands.compare import show_comparison
from profiler.commands.output import dump
from profiler.commands.requests import CompareRequest
from profiler.comparison.compare import compare
from profiler.comparison.document import ComparisonDocument, comparison_document
from profiler.comparison.programs import ProgramRelation
from profiler.comparison.runs import find_runs, read_runs
from profiler.errors import ExitCode, UsageError
from profiler.model import Verdict
from profiler.notices import NoticeKind
from profiler.render.runs.page import cards, render_comparison, sentences
from profiler.render.runs.rows import change_words, changes_in_order, reason_words
from profiler.runner import protocol


def verdicts(comparison):
    return {cell: change.verdict for cell, change in comparison.last.cells.items()}


def kinds(comparison):
    return {notice.kind for notice in comparison.notices}


def document(comparison):
    """The document as another program gets it."""
    text = dump(comparison_document(comparison))
    ComparisonDocument.model().model_validate_json(text)
    return strict_json(text)


# ---- verdicts ----


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """Two runs of which the later has slower and faster cells, and what is found of them."""
    pair = Pair(tmp_path_factory.mktemp("moved"))
    newer = pair.copy({"slow..": 1.06, "fast..large": 0.9})
    return pair, newer, pair.compare(newer)


def test_known_factors_are_found_and_all_else_is_not(moved):
    _, _, found = moved
    cells = found.last.cells
    assert found.last.control == "plain"
    assert found.notices == ()
    assert found.last.refused is None
    for cell, row in cells.items():
        if cell.startswith("slow.."):
            assert (row.verdict, row.reason) == (Verdict.SLOWER, BetweenRunsReason.DECIDED)
            assert row.ratio == pytest.approx(1.06, abs=0.006)
            assert row.ratio_low > 1.05
        elif cell == "fast..large":
            assert row.verdict == Verdict.FASTER
            assert row.ratio == pytest.approx(0.9, abs=0.006)
        elif cell.startswith("plain.."):
            assert (row.verdict, row.reason) == (None, BetweenRunsReason.CONTROL)
        else:
            assert row.verdict in (Verdict.SAME, Verdict.UNCLEAR), cell
    assert {change.program for change in cells.values()} == {ProgramRelation.SAME_KEY}


def test_a_shift_of_the_whole_run_is_no_regression(pair):
    found = pair.compare(pair.copy({"": 1.3}))
    cells = found.last.cells
    assert not any(change.decided for change in cells.values())
    assert all(1.28 < change.durations.raw_ratio < 1.32 for change in cells.values()), (
        "the shift is shown"
    )


def test_the_ratio_of_durations_is_the_quotient_of_those_shown(moved):
    for cell in document(moved[2])["steps"][0]["cells"]:
        quotient = cell["newer_duration_ns"] / cell["older_duration_ns"]
        assert cell["duration_ratio"] == pytest.approx(quotient), cell["id"]
        assert cell["duration_ratio_low"] <= quotient <= cell["duration_ratio_high"]


def test_the_other_way_round_the_verdicts_are_flipped(moved):
    pair, newer, given = moved
    there = given.last.cells
    back = read_runs([newer, pair.older])
    turned = compare(back)
    said = [comparison_document(one)["steps"][0]["reversed"] for one in (given, turned)]
    assert said == [False, True]
    flipped = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
    for cell, row in turned.last.cells.items():
        before = there[cell]
        assert row.verdict == flipped.get(before.verdict, before.verdict)
        assert row.ratio * before.ratio == pytest.approx(1)
    assert kinds(turned) == {NoticeKind.ORDER_REVERSED}


@pytest.mark.parametrize(
    ("fact", "of_older", "reason"),
    [
        ({"concurrent_kernels": 2}, False, BetweenRunsReason.OVERLAP),
        ({"waiting_ns": 1e9}, True, BetweenRunsReason.WAITS),
    ],
)
def test_a_verdict_that_whole_launches_would_overturn_is_not_given(pair, fact, of_older, reason):
    newer = pair.copy({"slow..": 1.06})
    record = {"event": protocol.FINISHED, "phase": protocol.WARMUP, "cell": "slow..large", **fact}
    run = pair.older if of_older else newer
    for journal in run.glob("raw/ncu-timing.*/journal.jsonl"):
        with journal.open("a") as file:
            file.write(json.dumps(record) + "\n")
    cells = pair.compare(newer).last.cells
    assert cells["slow..large"].verdict is Verdict.SLOWER, "the same program runs alike"
    other_keys(newer)
    programs = {name: name for name in ("plain", "tree", "loop", "wide", "fast", "slow", "odd")}
    write_builds(pair.older, programs)
    write_builds(newer, {**programs, "slow": "other"})
    cells = pair.compare(newer).last.cells
    row = cells["slow..large"]
    assert (row.verdict, row.reason) == (Verdict.UNCLEAR, reason)
    assert cells["slow..small"].verdict is Verdict.SLOWER


def test_time_that_moved_without_the_cycles_is_the_clock(pair):
    found = pair.compare(pair.copy({"slow..": 1.06}, columns=[TIME]))
    row = found.last.cells["slow..large"]
    assert (row.verdict, row.reason) == (Verdict.UNCLEAR, BetweenRunsReason.CLOCK)
    assert row.judgement.clock_floor == pytest.approx(0.06, abs=0.01)


def test_a_clock_that_moved_for_all_is_said(pair):
    found = pair.compare(pair.copy({"": 1.1}, columns=[TIME]))
    assert kinds(found) == {NoticeKind.CLOCK_MOVED}


def test_unchanged_programs_that_moved_keep_others_undecided(pair):
    moved = {"tree..": 1.05, "loop..": 0.95, "wide..": 1.06, "fast..": 1.05, "odd..": 0.94}
    row = pair.compare(pair.copy({**moved, "slow..": 1.05})).last.cells["slow..large"]
    assert (row.verdict, row.reason) == (Verdict.UNCLEAR, BetweenRunsReason.CONTROLS_MOVED)


def test_a_program_under_two_names_is_no_control_of_itself(pair):
    pair.older = pair.copy({"": 5})  # all above 50 us, of one duration class
    newer = pair.copy({"slow..": 1.05, "tree..": 1.05, "loop..": 1.05})
    for run in (pair.older, newer):
        write_builds(run, {"slow": "same", "odd": "same"})
    cells = pair.compare(newer).last.cells
    assert cells["odd..large"].outcomes[1] == "duplicate"
    # Four variants are left as controls, too few in one problem: half of those of both moved.
    for cell in ("slow..large", "odd..large"):
        assert cells[cell].judgement.control_floor == pytest.approx(0.073, abs=0.02)


def with_few_controls(pair, times_as_long):
    """Two runs in which plain, tree and loop are the same programs, slow 2.5 % slower."""
    pair.older = pair.copy({"": times_as_long})
    newer = pair.copy({"slow..": 1.025})
    other_keys(newer)
    programs = {name: name for name in ("plain", "tree", "loop", "wide", "fast", "slow", "odd")}
    write_builds(pair.older, programs)
    edited = {name: f"new {name}" for name in ("wide", "fast", "slow", "odd")}
    write_builds(newer, {**programs, **edited})
    return pair.compare(newer)


def test_with_few_unchanged_programs_short_kernels_have_the_offsets_of_other_runs(pair):
    found = with_few_controls(pair, 1 / 5)  # 6 to 42 us
    for cell in ("slow..small", "slow..large"):
        row = found.last.cells[cell]
        assert np.isnan(row.judgement.control_floor), cell
        # 3.5 deviations of the difference of two sessions, of 0.6 % each.
        assert row.judgement.session_floor == pytest.approx(0.0302, abs=0.0001)
        assert row.judgement.margin == row.judgement.session_floor
        assert (row.verdict, row.reason) == (Verdict.UNCLEAR, BetweenRunsReason.FEW_CONTROLS)
        assert row.ratio_high - row.ratio_low > 2 * 1.96 * 0.0084
        assert row.judgement.detectable > 0.03
    said = [reason_words(found.last.cells[cell]) for cell in ("slow..small", "slow..large")]
    assert all("offsets between sessions of up to" in reason for reason in said)
    (step,) = document(found)["steps"]
    assert {cell["session_floor"] for cell in step["cells"] if cell["controlled"]} == {
        found.last.cells["slow..small"].judgement.session_floor
    }


def test_with_few_unchanged_programs_long_kernels_keep_their_margin(pair):
    found = with_few_controls(pair, 5)
    row = found.last.cells["slow..large"]
    assert (row.verdict, row.judgement.margin) == (Verdict.SLOWER, pytest.approx(0.01))
    assert row.judgement.session_floor == pytest.approx(0.005, abs=0.0001)


# ---- what is the same program ----


def build(variant, program, **more):
    return {"variant": variant, "ok": True, "program": program, "kernels": [], **more}


def write_builds(run, programs, registers=None):
    kernels = [] if registers is None else [{"name": "k", "registers": registers}]
    builds = [build(name, code, kernels=kernels) for name, code in programs.items()]
    (run / "build.json").write_text(json.dumps({"builds": builds}))


def other_keys(run):
    """As after an update of the driver: every key is another."""
    for file in (run / "run.json", *run.glob("raw/*/session.json")):
        text = json.loads(file.read_text())
        text["keys"] = {cell: f"new-{key}" for cell, key in text["keys"].items()}
        file.write_text(json.dumps(text))


def test_without_an_unchanged_baseline_nothing_is_decided(pair):
    newer = pair.copy({"slow..": 1.5})
    other_keys(newer)
    write_builds(pair.older, {"plain": "a", "slow": "b"})
    write_builds(newer, {"plain": "changed", "slow": "b"})
    found = pair.compare(newer)
    cells = found.last.cells
    assert found.last.control is None
    assert kinds(found) == {NoticeKind.NO_CONTROL}
    assert {change.reason for change in cells.values()} == {BetweenRunsReason.NO_CONTROL}
    assert {change.verdict for change in cells.values()} == {Verdict.UNCLEAR}
    assert cells["slow..large"].ratio == pytest.approx(1.5, rel=0.02)
    assert cells["plain..large"].program == ProgramRelation.CHANGED
    assert cells["slow..large"].program == ProgramRelation.SAME_CODE
    # Another variant that did not change can stand in.
    found = pair.compare(newer, baseline="tree")
    assert found.last.control == "tree"
    assert found.last.cells["slow..large"].verdict == Verdict.SLOWER


@pytest.mark.parametrize(
    ("torch", "expected"),
    [("2.13.0", ProgramRelation.SAME_TORCH), ("2.14.0", ProgramRelation.UNKNOWN)],
)
def test_code_of_torch_is_the_same_as_far_as_its_version_says(pair, torch, expected):
    newer = pair.copy(environment={"torch": torch})
    other_keys(newer)
    assert {change.program for change in pair.compare(newer).last.cells.values()} == {expected}


def write_sources(run, variants, **files):
    """Write into a run folder what its variants are made from, and the text of source files."""
    sources = {
        "files": {f"{name}.py": str(hash(text)) for name, text in files.items()},
        "variants": variants,
    }
    change_json(run / "run.json", sources=sources)
    texts = {f"{name}.py": text for name, text in files.items()}
    (run / "sources.json").write_text(json.dumps({"files": texts}))


def test_an_edited_python_kernel_is_named_with_its_diff(pair):
    newer = pair.copy({"slow..": 1.2, "odd..": 0.9})
    other_keys(newer)
    digests = dict.fromkeys(("plain", "tree", "loop", "wide", "fast", "slow", "odd"), "a")
    before, after = f"x = 1\nplace = {str(pair.older)!r}\n", "x = 2\n"
    write_sources(pair.older, digests, kernels=before, same="y = 1\n")
    write_sources(newer, {**digests, "slow": "b"}, kernels=after, same="y = 1\n")
    found = pair.compare(newer)
    cells = found.last.cells
    assert found.last.control == "plain"
    assert found.last.changed_variants == ("slow",)
    assert cells["slow..large"].program == ProgramRelation.CHANGED
    assert cells["tree..large"].program == ProgramRelation.SAME_SOURCE
    (file,) = found.last.edited_files
    assert file.name == "kernels.py"
    assert file.diff[1:] == ("-x = 1", "-place = 'RUN'", "+x = 2"), "nothing private"
    assert list(found.differences) == ["source kernels.py"]
    answer = "".join(part.text for sentence in sentences(found) for part in sentence)
    assert "The code of slow changed (edited: kernels.py)." in answer
    assert "Of 2 cells whose code changed, 2 are slower" in answer
    assert "of 10 cells whose code did not change, none is slower and 2 are faster" in answer
    first = changes_in_order(found.last)[:2]
    assert [change.cell.variant.id for change in first] == ["slow"] * 2
    assert cards(found)[-1].answer == "1 variant changed"
    assert "-x = 1\n-place = &#39;RUN&#39;\n+x = 2" in render_comparison(found)
    # A recording has digests alone.
    (newer / "sources.json").unlink()
    found = pair.compare(newer)
    assert found.last.changed_variants == ("slow",)
    assert [file.diff for file in found.last.edited_files] == [()]


def test_edited_files_that_no_variant_is_known_to_use_are_said(pair):
    newer = pair.copy()
    other_keys(newer)
    for run, text in ((pair.older, "x = 1\n"), (newer, "x = 2\n")):
        write_sources(run, {}, workload=text)
    found = pair.compare(newer)
    assert {change.program for change in found.last.cells.values()} == {
        ProgramRelation.FILES_EDITED
    }
    assert found.last.control == "plain"
    (notice,) = found.notices
    assert notice.kind == NoticeKind.FILES_EDITED
    assert notice.values["files"] == "workload.py"
    assert cards(found)[-1].answer == "0 variants changed, of 7 it is not known"


def test_other_files_that_both_runs_opened_are_sources_too(pair):
    """A kernel that Python reads from a `.cu` file was said to be unchanged, and was a control."""
    newer = pair.copy()
    variants = dict.fromkeys(("plain", "tree", "loop", "wide", "fast", "slow", "odd"), "a")
    for run, digest in ((pair.older, "1"), (newer, "2")):
        write_sources(run, variants, mine="x = 1\n")
        of_mine = json.loads((run / "run.json").read_text())["sources"]["files"]["mine.py"]
        opened = {"spec:inner/mine.py": of_mine, "spec:kernel.cu": digest}
        change_json(run / "run.json", opened=opened)
    comparison = pair.compare(newer)
    assert {change.program for change in comparison.last.cells.values()} == {
        ProgramRelation.FILES_EDITED
    }
    assert [file.name for file in comparison.last.edited_files] == ["kernel.cu"]
    assert [notice.kind for notice in comparison.notices] == [NoticeKind.FILES_EDITED]


def change_journals(run, start, tuned):
    """Write into the journals of a run what was tuned for the cells that begin like this."""
    for journal in run.glob("raw/*/journal.jsonl"):
        records = [json.loads(line) for line in journal.read_text().splitlines()]
        for record in records:
            if str(record.get("cell")).startswith(start):
                record["tuned"] = tuned
        journal.write_text("".join(json.dumps(record) + "\n" for record in records))


def tuned_as(run, configs):
    """Write into the journals of a run which configuration was chosen, by start of a cell's id."""
    for start, config in configs.items():
        chosen = {"operation": "sum_0", "choice": "", "config": config, "best": True}
        tried = {**chosen, "config": {"num_warps": 1}, "best": False}
        change_journals(run, start, [tried, chosen])


def test_what_the_autotuner_chose_otherwise_is_another_program_and_the_reason(pair):
    newer = pair.copy({"wide..": 1.2})
    tuned_as(pair.older, {"wide..": {"XBLOCK": 512, "num_warps": 8}, "tree..": {"num_warps": 4}})
    tuned_as(newer, {"wide..": {"XBLOCK": 512, "num_warps": 4}, "tree..": {"num_warps": 4}})
    found = pair.compare(newer)
    cells = found.last.cells
    assert set(found.last.retuned) == {"wide..small", "wide..large"}
    assert cells["wide..large"].program == ProgramRelation.RETUNED, "whatever the key says"
    assert cells["tree..large"].program == ProgramRelation.SAME_KEY
    assert not ProgramRelation.RETUNED.unchanged
    assert change_words(cells["wide..large"]).startswith("autotuner: num_warps 8 \u2192 4")
    assert "autotuner" not in change_words(cells["tree..large"])
    answer_text = "".join(part.text for sentence in sentences(found) for part in sentence)
    assert (
        "chose differently at 2 of 14 cells, 2 of the 2 slower or faster ones among them"
        in answer_text
    )
    assert "ratios of tuned cells span up to 1." in answer_text
    assert found.drawn_spread[0] in ("wide..small", "wide..large")
    card = cards(found)[-1]
    assert card.answer == "0 variants changed, 2 cells tuned differently"
    (step,) = document(found)["steps"]
    (told,) = [cell["retuned"] for cell in step["cells"] if cell["id"] == "wide..large"]
    older, newer = (
        [{"choice": "", "config": {"XBLOCK": 512, "num_warps": warps}}] for warps in (8, 4)
    )
    assert told == [{"operation": "sum_0", "older": older, "newer": newer}]


TUNED = {
    "plain": (
        [("k", "", {"X": 1}), ("k", "", {"X": 2})],
        [("k", "", {"X": 2}), ("k", "", {"X": 1})],
        "",
    ),
    "odd": (
        [("sum_0", "", {"XBLOCK": 512})],
        [("sum_0", "", {"XBLOCK": 512, "num_stages": 2})],
        "autotuner: num_stages none \u2192 2",
    ),
    "tree": (
        [("mm(64x64)", "triton_mm", {"num_warps": 4})],
        [("mm(64x64)", "addmm", {})],
        "autotuner mm(64x64): triton_mm num_warps=4 \u2192 addmm",
    ),
    "loop": (
        [("mm(64x64)", "bias_addmm", {})],
        [("mm(64x64)", "addmm", {})],
        "autotuner mm(64x64): bias_addmm \u2192 addmm",
    ),
    "wide": (
        [("sum_0", "", {"X": 1}), ("sum_0", "", {"X": 2})],
        [("sum_0", "", {"X": 3}), ("sum_0", "", {"X": 2})],
        "autotuner sum_0: X=1 and X=2 \u2192 X=2 and X=3",
    ),
    "fast": (
        [("sum_0", "", {"X": 1}), ("max_1", "", {"X": 1})],
        [("sum_0", "", {"X": 2}), ("max_1", "", {"X": 4})],
        "autotuner sum_0: X 1 \u2192 2, autotuner max_1: X 1 \u2192 4",
    ),
    "slow": (
        [("triton_red_0", "", {"X": 1})],
        [("triton_per_0", "", {"X": 1})],
        "autotuner triton_per_0: no such kernel \u2192 X=1, "
        "autotuner triton_red_0: X=1 \u2192 no such kernel",
    ),
}
"""By variant: what was chosen in both runs, and the words for it; none where the order differs."""


def test_other_settings_makers_and_kernels_are_other_programs(pair):
    newer = pair.copy()
    for place, run in enumerate((pair.older, newer)):
        for variant, chosen in TUNED.items():
            best = [
                {"operation": operation, "choice": choice, "config": config, "best": True}
                for operation, choice, config in chosen[place]
            ]
            change_journals(run, f"{variant}..", best)
    found = pair.compare(newer)
    for variant, (_, _, words) in TUNED.items():
        for cell in (f"{variant}..small", f"{variant}..large"):
            assert change_words(found.last.cells[cell]) == words
            assert (cell in found.last.retuned) == bool(words)
            assert (found.last.cells[cell].program == ProgramRelation.RETUNED) == bool(words)
    answer_text = "".join(part.text for sentence in sentences(found) for part in sentence)
    assert "The compiler's autotuner chose differently at 12 of 14 cells." in answer_text


def test_a_baseline_that_was_tuned_otherwise_at_one_problem_controls_the_other(pair):
    newer = pair.copy()
    tuned_as(pair.older, {"plain..large": {"X": 1}})
    tuned_as(newer, {"plain..large": {"X": 2}})
    found = pair.compare(newer)
    for cell, change in found.last.cells.items():
        assert (change.reason is BetweenRunsReason.NO_CONTROL) == cell.endswith("large")
    detail = cards(found)[2].detail
    assert detail.endswith("at 1 of 2 problems it is another program, and controls nothing")


def test_a_run_that_did_not_record_what_was_tuned_tells_nothing_of_it(pair):
    newer = pair.copy()
    tuned_as(newer, {"wide..": {"XBLOCK": 512}})
    assert pair.compare(newer).last.retuned == ()


# ---- refusals ----


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"gpu": "NVIDIA A100"}, BetweenRunsReason.DIFFERENT_MACHINES),
        ({"clock_control": "base"}, BetweenRunsReason.DIFFERENT_CLOCKS),
        ({"cache_control": "none"}, BetweenRunsReason.DIFFERENT_CACHES),
    ],
)
def test_durations_of_other_settings_have_no_verdict(pair, environment, reason):
    found = pair.compare(pair.copy({"slow..": 2.0}, environment=environment))
    cells = found.last.cells
    assert found.last.refused is reason
    assert {change.verdict for change in cells.values()} == {None}
    assert {change.reason for change in cells.values()} == {reason}
    assert cells["slow..large"].ratio == pytest.approx(2.0, rel=0.02)
    assert kinds(found) == {NoticeKind.NOT_COMPARABLE}
    assert all(each["verdict"] is None for each in document(found)["steps"][0]["cells"])
    assert {each["field"] for each in document(found)["differences"]} == set(environment)


def test_machines_without_a_gpu_are_told_apart_by_their_processor(pair):
    change_json(pair.older / "run.json", environment={"gpu": None})
    newer = pair.copy(environment={"cpu": "Another CPU"})
    assert pair.compare(newer).last.refused is BetweenRunsReason.DIFFERENT_MACHINES


def test_another_chip_of_the_same_model_is_said_and_compared(pair):
    found = pair.compare(pair.copy({"slow..": 1.06}, environment={"gpu_uuid": "GPU-2"}))
    assert kinds(found) == {NoticeKind.ANOTHER_GPU}
    assert found.last.cells["slow..large"].verdict == Verdict.SLOWER


def test_settings_and_variables_that_differ_are_said(pair):
    """Nothing differed, "as far as it was recorded", beside runs with other inputs."""
    newer = pair.copy()
    versions = {"torch": "2", "triton": "3.4"}
    change_json(pair.older / "run.json", variables="1", libraries=versions)
    newest = {"libraries": {**versions, "triton": "3.5"}, "overrides": ["margin_pct=2"]}
    change_json(newer / "run.json", variables="2", **newest)
    assert pair.compare(newer).differences == {
        "overrides": ("none", "margin_pct=2"),
        "variables": ("version 1", "version 2"),
        "triton": ("3.4", "3.5"),
    }
    change_json(newer / "run.json", variables=None, libraries=None, overrides=[])
    assert not pair.compare(newer).differences, "variables were not recorded"


def test_durations_of_different_collectors_have_no_verdict(pair):
    newer = pair.copy()
    (attempt,) = newer.glob("raw/ncu-timing.*")
    (attempt / "ncu.csv.gz").unlink()
    change_json(attempt / "session.json", collector="timer")
    lines = []
    for line in (attempt / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["event"] == "finished":
            record["seconds"] = [1e-4, 1.1e-4]
            record["durations_ns"] = [1e5, 1.1e5]
        lines.append(json.dumps(record))
    (attempt / "journal.jsonl").write_text("\n".join(lines) + "\n")
    assert pair.compare(newer).last.refused is BetweenRunsReason.DIFFERENT_COLLECTORS


def test_few_blocks_have_no_verdict(pair):
    newer = pair.copy({"slow..": 1.5})
    runs = read_runs([pair.older, newer])
    samples = runs[1].report.measured.samples
    object.__setattr__(runs[1].report.measured, "samples", samples[samples["block"] < 5])
    row = compare(runs).last.cells["slow..large"]
    assert (row.verdict, row.reason) == (Verdict.UNCLEAR, BetweenRunsReason.FEW_BLOCKS)
    assert (row.judgement.blocks_older, row.judgement.blocks_newer) == (8, 5)


def test_a_wrong_cell_is_not_compared_and_fails_a_gate(pair, capsys):
    newer = pair.copy({"slow..": 1.5}).rename(pair.older.with_name("n" * 240))
    journal = next(newer.glob("raw/ncu-timing.*")) / "journal.jsonl"
    wrong = {"event": "failed", "cell": "slow..large", "phase": "check", "outcome": "wrong_result"}
    with journal.open("a") as stream:
        stream.write(json.dumps({"time": 9.0, **wrong, "cause": "off by 3"}) + "\n")
    row = pair.compare(newer).last.cells["slow..large"]
    assert row.verdict == Verdict.NO_DATA
    assert row.outcomes == ("measured", "wrong_result")
    request = CompareRequest(
        [str(pair.older), str(newer)], fail_on="regression:60", reports=pair.folder
    )
    assert show_comparison(request) is ExitCode.SOME_CELLS_FAILED
    assert "--fail-on regression:60%: 1 cell failed since: slow..large." in capsys.readouterr().err
    assert len([*pair.folder.glob("compare/*.html")]) == 1, "its name is not too long"
    with journal.open("a") as stream:
        for cell in pair.compare(newer).last.cells:
            stream.write(json.dumps({"time": 9.0, **wrong, "cell": cell, "cause": "off"}) + "\n")
    shutil.copytree(newer, newest := newer.with_name("newest"))
    both_failed = replace(request, runs=[str(newer), str(newest)], no_report=True)
    assert show_comparison(both_failed) is ExitCode.SOME_CELLS_FAILED, "nothing was compared"
    assert show_comparison(replace(both_failed, fail_on=None)) is ExitCode.COMPLETE


# ---- the baseline twice in a block ----


def test_noise_floors_of_both_runs_widen_the_margin(pair):
    runs = read_runs([pair.older, pair.copy({"slow..": 1.03})])
    for run in runs:
        samples = run.report.measured.samples.assign(arm=0)
        second = samples[samples["cell"].str.startswith("plain..")].assign(arm=1)
        second["duration_ns"] *= 1.03
        both = pd.concat([samples, second], ignore_index=True)
        object.__setattr__(run.report.measured, "samples", both)
    row = compare(runs).last.cells["slow..large"]
    assert row.judgement.noise_floor == pytest.approx(1.03 ** (2**0.5) - 1, rel=0.05)
    assert row.verdict != Verdict.SLOWER


# ---- facts, cells, history ----


def test_static_facts_are_compared_exactly(pair):
    newer = pair.copy()
    write_builds(pair.older, {"tree": "a"}, registers=64)
    write_builds(newer, {"tree": "a"}, registers=72)
    found = pair.compare(newer)
    cells = {each["id"]: each for each in document(found)["steps"][0]["cells"]}
    facts = cells["tree..large"]["facts"]
    assert facts["registers"]["older"] == facts["registers"]["newer"], "ncu's word stands first"
    assert {"older", "newer"} == set(cells["tree..large"]["metrics"]["l2_hit_pct"])


def test_facts_that_only_the_build_knows(pair):
    newer = pair.copy()
    for run, spills in ((pair.older, 0), (newer, 16)):
        kernels = [{"name": "k", "spill_store_bytes": spills}, {"name": "l"}]
        text = json.dumps({"builds": [build("tree", "a", kernels=kernels)]})
        (run / "build.json").write_text(text)
    change = pair.compare(newer).last.cells["tree..small"]
    spills = [fact for fact in change.metrics if fact.metric == "spill_store_bytes"]
    assert [(fact.older, fact.newer) for fact in spills] == [(0.0, 16.0)]


def without_variant(run, variant):
    plan = json.loads((run / "plan.json").read_text())
    plan["cells"] = [cell for cell in plan["cells"] if cell["variant"]["id"] != variant]
    (run / "plan.json").write_text(json.dumps(plan))


def test_cells_that_only_one_run_has_are_named(pair):
    newer = pair.copy()
    without_variant(newer, "odd")
    without_variant(pair.older, "wide")
    found = pair.compare(newer)
    assert found.last.only_older == ("odd..small", "odd..large")
    assert found.last.only_newer == ("wide..small", "wide..large")
    assert len(found.last.cells) == 10
    assert set(found.cells) >= {"odd..small", "wide..small"}


def test_problems_of_one_name_with_other_parameters_are_not_joined(pair):
    """`large` of 64 rows, and of 512, was one cell, whose code had changed."""
    newer = pair.copy()
    plan = json.loads((newer / "plan.json").read_text())
    large = [cell for cell in plan["cells"] if cell["problem"]["name"] == "large"]
    for cell in large:
        cell["problem"]["params"] = {"n": 3}
    (newer / "plan.json").write_text(json.dumps(plan))
    comparison = pair.compare(newer)
    assert {change.cell.problem.name for change in comparison.last.cells.values()} == {"small"}
    assert len(comparison.last.only_older) == len(comparison.last.only_newer) == 7
    assert kinds(comparison) == {NoticeKind.REDEFINED_PROBLEMS}
    assert {comparison.problem(cell) for cell in comparison.history} == {"small"}
    change_json(newer / "plan.json", cells=large)
    with pytest.raises(UsageError, match="have other parameters: large"):
        pair.compare(newer)


def test_runs_without_a_common_cell_are_refused(pair):
    newer = pair.copy()
    for variant in ("plain", "tree", "loop"):
        without_variant(newer, variant)
    for variant in ("wide", "fast", "slow", "odd"):
        without_variant(pair.older, variant)
    with pytest.raises(UsageError, match="no cell in common"):
        pair.compare(newer)


def test_three_runs_are_two_steps_and_a_history(pair):
    second = pair.copy({"slow..": 1.2}, created="2026-12-01T08:00:00+00:00")
    third = pair.copy(
        {"fast..": 0.8}, created="2026-12-02T08:00:00+00:00", environment={"driver": "590.2"}
    )
    found = pair.compare(second, third)
    first, last = (step.cells for step in found.steps)
    assert first["slow..large"].verdict is Verdict.SLOWER
    assert last["slow..large"].verdict is Verdict.FASTER
    assert last["fast..large"].verdict is Verdict.FASTER
    assert [list(times) for times in found.history.values()] == [[0, 1, 2]] * len(found.cells)
    assert found.differences == {"driver": ("580.1", "580.1", "590.2")}
    assert next(each["cell"] for each in document(found)["history"]) == "plain..small"


def test_only_and_baseline_choose_cells(pair):
    newer = pair.copy({"slow..": 1.06})
    found = pair.compare(newer, only="variant=slow,problem=large")
    assert sorted(found.last.cells) == ["plain..large", "slow..large"]
    with pytest.raises(UsageError, match="did you mean 'tree'"):
        pair.compare(newer, baseline="tre")
    with pytest.raises(UsageError, match="no cell matches"):
        pair.compare(newer, only="variant=nobody")


# ---- which runs are meant ----


def test_runs_are_found_by_folder_and_by_name(pair):
    newer = pair.copy()
    later = newer.rename(newer.with_name("20270101-000000"))
    reports = pair.older.parents[1]
    assert find_runs([str(pair.older), "sums"], reports) == (pair.older, later)
    assert find_runs(["sums~1", "sums"], reports) == (pair.older, later)
    assert find_runs([str(pair.older), str(pair.older.parent)], reports) == (pair.older, later)


def test_what_is_no_run_is_refused(pair, tmp_path):
    reports = pair.older.parents[1]
    (tmp_path / "replayed").mkdir()
    for wanted, words in (
        (["sums"], "needs two runs"),
        (["sums", "sums"], "the same run"),
        (["sums", str(pair.older)], "the same run"),
        (["nobody", "sums"], "neither a run folder nor an experiment"),
        (["sums~7", "sums"], "has only 1 run in"),
        ([str(tmp_path / "replayed"), "sums"], "no run.json"),
    ):
        with pytest.raises(UsageError, match=words):
            find_runs(wanted, reports)


def test_a_damaged_run_is_named(pair):
    newer = pair.copy()
    (newer / "spec.yaml").unlink()
    with pytest.raises(UsageError, match=r"copy-1: damaged: no spec\.yaml"):
        pair.compare(newer)
    (newer / "run.json").write_text("{")
    with pytest.raises(UsageError, match=r"run\.json: damaged"):
        pair.compare(newer)


def test_the_document_has_raw_numbers_and_null_for_what_is_missing(moved):
    pair, _, comparison = moved
    found = document(comparison)
    assert found["schema_version"] == 1
    assert [run["name"] for run in found["runs"]] == [pair.older.name, "copy-1"]
    (step,) = found["steps"]
    cells = {each["id"]: each for each in step["cells"]}
    slow = cells["slow..large"]
    assert (slow["verdict"], slow["reason"], slow["program"]) == ("slower", "decided", "same_key")
    assert slow["newer_duration_ns"] / slow["older_duration_ns"] == pytest.approx(1.06, rel=0.01)
    assert 0 < slow["noise_floor"] < 0.02
    assert (slow["blocks_older"], slow["blocks_newer"]) == (8, 8)
    assert (cells["plain..large"]["verdict"], cells["plain..large"]["reason"]) == (None, "control")
    assert found["gate"] is None


def test_a_run_whose_tables_are_lost_is_compared_and_nothing_is_shown(pair):
    newer = pair.copy({})
    for table in newer.rglob("*.csv*"):
        table.write_bytes(b"")
    found = pair.compare(newer)
    assert {row.verdict for row in found.last.cells.values()} == {Verdict.NO_DATA}
    answer_text = "".join(part.text for sentence in sentences(found) for part in sentence)
    assert answer_text.startswith("No cell was measured in both runs.")
