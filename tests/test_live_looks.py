"""Whole live runs whose looks end the race of a clear loser, with finals, kills and resumption."""

import csv
import json
from collections import Counter

import pytest
from whole_runs import TESTS, attempts, rows_of, visits_of, wait_for

ENDINGS = str(TESTS / "workloads/endings.py")
TIMES = {"base": 100_000, "quick": 70_000, "twin": 70_000, "slow": 130_000}
"""The stand-in for ncu adds half a percent of noise: quick and twin cannot be told apart."""
TOLD = {"FAKE_NCU_TIMES": ",".join(f"{name}={time}" for name, time in TIMES.items())}
FIRST, SECOND, FINAL = range(8), range(8, 16), range(6)
FINALISTS = ("base", "quick", "twin")
STANDS_AFTER = 5
"""Visits of the second look that are made before a run stands still."""


def write_spec(profiler, **collect):
    variants = [{"name": name, "params": {"how": name}} for name in TIMES]
    given = {"blocks": [8, 16], "final_blocks": 6, "metrics": ["cycles"], "warmups": 0}
    return profiler.write_spec(
        workload=ENDINGS,
        variants={"list": variants},
        problems={"matrix": {"rows": [4]}},
        collect={"device": "cpu", **given, **collect},
    )


def expected(variants, blocks):
    """Visits of these variants, the baseline twice in each block."""
    once = {(f"{variant}..rows=4", block, 0) for variant in variants for block in blocks}
    return once | {("base..rows=4", block, 1) for block in blocks}


def by_session(run, name):
    """Visits of each attempt of a session, oldest first."""
    return [visits_of(each) for each in attempts(run) if each.name.startswith(f"{name}.")]


def summary(run):
    document = json.loads((run / "summary.json").read_text())
    return {cell["variant"]: cell["metrics"]["duration_ns"] for cell in document["cells"]}


def sampled(run):
    """Session, kind, variant, block and arm of each sample."""
    with (run / "samples.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [
        (r["session"], r["kind"], r["cell"].partition("..")[0], int(r["block"]), int(r["arm"]))
        for r in rows
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, command_line):
    """A run that nothing interrupts: command line, spec, what it said, and its folder."""
    profiler = command_line(tmp_path_factory.mktemp("whole"))
    spec = write_spec(profiler)
    done = profiler(spec, **TOLD)
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    return profiler, spec, done, run


def test_a_clear_loser_drops_out_and_the_finalists_are_measured_again(whole):
    _, _, done, run = whole
    first, second = by_session(run, "ncu-timing")
    assert (set(first), len(first)) == (expected(TIMES, FIRST), 40)
    assert (set(second), len(second)) == (expected(FINALISTS, SECOND), 32)
    (final,) = by_session(run, "ncu-final")
    assert (set(final), len(final)) == (expected(FINALISTS, FINAL), 24)
    assert "ncu-timing, look 1 of 2: 40 visits of 4 cells" in done.err
    assert "ncu-timing, look 2 of 2: 32 visits of 3 cells" in done.err
    assert "ncu-final: 24 visits of 3 cells" in done.err


def test_samples_say_which_visit_and_which_kind_of_session(whole):
    run = whole[3]
    samples = sampled(run)
    counts = Counter((session, kind) for session, kind, *_ in samples)
    assert counts == {("ncu-timing", "timing"): 72, ("ncu-final", "final"): 24}
    assert {variant for *_, variant, _, arm in samples if arm} == {"base"}
    assert len(set(samples)) == len(samples)


def test_the_summary_gives_a_finalist_the_samples_of_the_final_and_a_loser_those_of_its_look(whole):
    found = summary(whole[3])
    assert {name: (each["source"], each["n"]) for name, each in found.items()} == {
        "base": ("final", 6),
        "quick": ("final", 6),
        "twin": ("final", 6),
        "slow": ("blocks", 8),
    }
    for name, time in TIMES.items():
        assert found[name]["median"] == pytest.approx(time, rel=0.005)


def test_summary_json_has_verdicts(whole):
    found = summary(whole[3])
    assert {name: each.get("verdict") for name, each in found.items()} == {
        "base": None,
        "quick": "faster",
        "twin": "faster",
        "slow": "slower",
    }
    for name in ("quick", "twin", "slow"):
        assert found[name]["reason"] == "decided"
        assert found[name]["margin"] == pytest.approx(0.01)
        assert 0 < found[name]["noise_floor"] < 0.01
        assert found[name]["detectable"] > found[name]["margin"]
        assert found[name]["ratio"] == pytest.approx(TIMES[name] / TIMES["base"], rel=0.005)
    verdict_columns = {"verdict", "reason", "margin", "noise_floor", "detectable"}
    assert not verdict_columns & set(found["base"])
    document = json.loads((whole[3] / "summary.json").read_text())
    for cell in document["cells"]:
        others = [each for name, each in cell["metrics"].items() if name != "duration_ns"]
        assert others
        assert not any(verdict_columns & set(each) for each in others)


def test_the_same_command_finds_every_look_complete(whole):
    profiler, spec, _, run = whole
    before = len(attempts(run))
    again = profiler.measure(spec, **TOLD)
    assert again.code == 0
    assert len(attempts(run)) == before
    for title in ("ncu-timing, look 1 of 2", "ncu-timing, look 2 of 2", "ncu-final"):
        assert f"{title}: nothing is missing" in again.err


def test_a_run_killed_in_a_later_look_goes_on_with_what_is_missing_there(profiler, whole):
    spec = write_spec(profiler)
    first = profiler.measure(
        spec, "--set", "collect.blocks=8", "--set", "collect.final_blocks=0", **TOLD
    )
    assert first.code == 0, first.err
    (run,) = profiler.runs()
    process = profiler.start(spec, "--no-report", endings_stop_after=str(STANDS_AFTER), **TOLD)

    def standing():
        journal = run / "raw/ncu-timing.002/journal.jsonl"
        return journal.exists() and len(visits_of(journal.parent)) == STANDS_AFTER

    wait_for(standing)
    process.kill()
    process.communicate(timeout=60)
    done = profiler.measure(spec, **TOLD)
    assert done.code == 0, done.err
    assert profiler.runs() == [run]

    _, killed, rest = by_session(run, "ncu-timing")
    assert len(killed) == STANDS_AFTER
    assert not set(killed) & set(rest)
    assert len(rest) == 32 - STANDS_AFTER
    # What an uninterrupted run measures, in the order in which it does.
    uninterrupted = by_session(whole[3], "ncu-timing")[1]
    assert killed + rest == uninterrupted
    assert "look 1 of 2: nothing is missing" in done.err
    assert f"look 2 of 2: {len(rest)} visits of 3 cells" in done.err
    assert [len(rows_of(each)) for each in attempts(run) if "timing" in each.name] == [40, 5, 27]
    assert summary(run) == summary(whole[3])
    assert sorted(sampled(run)) == sorted(sampled(whole[3]))


def test_a_cell_that_fails_in_the_first_look_is_in_no_later_one(profiler):
    variants = [{"name": name, "params": {"how": name}} for name in ("base", "quick", "wrong")]
    spec = profiler.write_spec(
        workload=ENDINGS,
        variants={"list": variants},
        problems={"matrix": {"rows": [4]}},
        collect={"device": "cpu", "blocks": [6, 7], "metrics": ["cycles"], "warmups": 0},
    )
    told = {"FAKE_NCU_TIMES": "base=100000,quick=99300,wrong=10"}  # too close for six blocks
    done = profiler.measure(spec, **told)
    assert done.code == 4, done.err
    (run,) = profiler.runs()
    later = by_session(run, "ncu-timing")[-1]
    assert set(later) == expected(("base", "quick"), [6])
    (final,) = by_session(run, "ncu-final")
    assert {cell for cell, *_ in final} == {"base..rows=4", "quick..rows=4"}
