"""What is measured after the first look: open questions, and the finalists."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.samples import empty_samples
from profiler.analyse.verdicts import DELTA
from profiler.collect.registry import is_judged
from profiler.errors import SpecError
from profiler.model import SessionKind
from profiler.planning.plan import make_plan
from profiler.planning.space import Space
from profiler.planning.spec import load_spec
from profiler.sessions.agenda import (
    MOST_FINALISTS,
    final_session,
    later_session,
)

WIGGLE = np.array([-3, 1, -1, 2, -2, 3, 0.5, -0.5]) / 1000
"""Eight blocks that scatter by 0.2 % around nothing, without ties."""
NOISY = np.array([-60, 50, -40, 55, -65, 45, 58, -48]) / 1000
"""Eight blocks that decide nothing."""


class Bench:
    """A plan, and samples in which every variant has the duration that a test says."""

    def __init__(self, plan):
        self.plan = plan
        self.cells = {cell.id: cell for cell in plan.cells}

    def samples(self, times, *, blocks=8, scatter=WIGGLE, collector="ncu"):
        """Timing samples by cell id or variant; the baseline has both arms."""
        rows = []
        for number, cell in enumerate(self.plan.cells):
            time = times.get(cell.id, times.get(cell.variant.id, math.nan))
            for arm in range(2 if cell.variant.id == self.plan.baseline else 1):
                for block in range(blocks):
                    own = np.asarray(time, dtype=float).ravel()
                    value = own[min(block, len(own) - 1)]
                    noise = np.exp(np.roll(scatter, number + 3 * arm)[block % len(scatter)])
                    rows.append((cell.id, block, arm, value * noise, 1.8 * value * noise))
        columns = ["cell", "block", "arm", "duration_ns", "cycles"]
        frame = pd.DataFrame(rows, columns=columns).dropna(subset=["duration_ns"])
        facts = {"session": f"{collector}-timing", "collector": collector, "kind": "timing"}
        return frame.assign(**facts, repeat=0, kernels=1.0, kernel_names="k")

    def look(self, samples, look=1, delta=DELTA):
        session = self.plan.sessions[0]
        return later_session(self.plan, session, samples, look, delta=delta)

    def without_pairs(self):
        return Bench(replace(self.plan, pairs=()))

    def final(self, samples):
        return final_session(self.plan, self.plan.sessions[0], samples)


def visited(session):
    """Cells that a session visits."""
    return {visit.cell for visit in session.visits}


def variants_of(session):
    return {cell.partition("..")[0] for cell in visited(session)}


@pytest.fixture
def bench(tmp_path):
    def make(variants="[base, one, two, three]", **more):
        text = f"name: x\nworkload: ./workload.py\nvariants: {{list: {variants}}}\n"
        fields = {"collect": "{blocks: [8, 16, 32]}", **more}
        text += "".join(f"{key}: {value}\n" for key, value in fields.items())
        (tmp_path / "spec.yaml").write_text(text)
        loaded = load_spec(tmp_path / "spec.yaml")
        made = Bench(make_plan(loaded, Space()))
        made.margin = loaded.experiment.margin_pct / 100
        return made

    return make


DECIDED = {"base": 1000.0, "one": 700.0, "two": 850.0, "three": 1300.0}
"""`one` is the best, and 30 % faster than the baseline."""


# ---- later looks ---------------------------------------------------------------------------------


ALL_SLOWER = {"base": 1000.0, "one": 1200.0, "two": 1400.0, "three": 1600.0}
LATER = {
    "where every question is answered nothing more is measured": (DECIDED, {}, ""),
    "a winner that is not decided against the baseline goes on": (
        *({"base": 1000.0, "one": 990.0, "two": 1200.0, "three": 1300.0}, {}, "base one"),
    ),
    "losers need no verdict against the baseline": (DECIDED | {"two": 990.0}, {}, ""),
    "where all are slower than the baseline nothing is open": (ALL_SLOWER, {}, ""),
    "the same as the baseline is an answer": (ALL_SLOWER | {"one": 1000.5}, {"margin": 5.0}, ""),
    "noise that decides nothing keeps all of them": (
        *(dict.fromkeys(DECIDED, 1000.0), {"scatter": NOISY}, "base one two three"),
    ),
    "a margin decides what is apart": (DECIDED, {"margin": 30.0}, "base one two"),
    "references are never rivals": (
        *(DECIDED | {"one": 701.0, "two": 700.0}, {"page": "{references: [one]}"}, ""),
    ),
    "cells without samples are not measured again": (
        *({"base": 1000.0, "one": 700.0, "two": 701.0}, {}, "base one two"),
    ),
    "without the baseline the race goes on": (
        *({"one": 700.0, "two": 701.0, "three": 1300.0}, {}, "base one two"),
    ),
    "a winner without a baseline is not measured again": ({"one": 700.0, "three": 1300.0}, {}, ""),
}
"""Durations, what else is so, and the variants of the second look: one of few problems."""


@pytest.mark.parametrize(("times", "more", "expected"), LATER.values(), ids=LATER)
def test_what_goes_on_to_the_second_look(bench, times, more, expected):
    fields = {"page": more["page"]} if "page" in more else {}
    made = bench(margin_pct=more.get("margin", 1.0), **fields)
    samples = made.samples(times, scatter=more.get("scatter", WIGGLE))
    assert variants_of(made.look(samples, delta=made.margin)) == set(expected.split())


def test_two_that_cannot_be_told_apart_go_on_with_the_baseline_twice(bench):
    made = bench()
    later = made.look(made.samples(DECIDED | {"two": 701.0}))
    session = made.plan.sessions[0]
    facts = (later.name, later.collector, later.kind, later.metrics)
    assert facts == (session.name, session.collector, session.kind, session.metrics)
    assert Counter((visit.cell, visit.arm) for visit in later.visits) == {
        ("base..default", 0): 8,
        ("base..default", 1): 8,
        ("one..default", 0): 8,
        ("two..default", 0): 8,
    }
    assert {visit.block for visit in later.visits} == set(range(8, 16))


def test_after_the_second_look_a_race_is_left_to_the_confirmation(bench):
    made = bench()
    tie = made.samples(DECIDED | {"two": 701.0}, blocks=16)
    assert made.look(tie, look=2).visits == ()
    assert variants_of(made.final(tie)) == {"base", "one", "two"}
    unconfirmed = bench(collect="{blocks: [8, 16, 32], final_blocks: 0}")
    last = unconfirmed.look(tie, look=2)
    assert {visit.block for visit in last.visits} == set(range(16, 32))
    assert variants_of(last) == {"base", "one", "two"}
    assert unconfirmed.look(made.samples(DECIDED, blocks=16), look=2).visits == ()


def test_visits_of_a_look_are_in_whole_blocks_and_in_random_order(bench):
    made = bench()
    later = made.look(made.samples(DECIDED | {"two": 701.0}))
    blocks = [visit.block for visit in later.visits]
    assert blocks == sorted(blocks)
    orders = {
        tuple((v.cell, v.arm) for v in later.visits if v.block == block) for block in range(8, 16)
    }
    assert len(orders) > 1
    assert all(len(set(order)) == 4 for order in orders)


def test_problems_are_looked_at_one_by_one(bench):
    made = bench(problems="{list: [p, q]}")
    close = {f"{variant}..p": time for variant, time in DECIDED.items()} | {"two..p": 701.0}
    later = made.look(made.samples(DECIDED | close))
    assert visited(later) == {"base..p", "one..p", "two..p"}


# ---- what a look may know ------------------------------------------------------------------------


def test_only_blocks_before_the_boundary_count(bench):
    made = bench()
    tie = {"base": 1000.0, "one": 700.0, "two": 701.0, "three": 1300.0}
    before = made.look(made.samples(tie))
    # In the blocks of the look itself, two falls far behind and three comes first.
    after = tie | {
        "two": [701.0] * 8 + [5000.0] * 8,
        "three": [1300.0] * 8 + [100.0] * 8,
    }
    for made_so_far in range(8, 17):
        samples = made.samples(after, blocks=made_so_far)
        assert made.look(samples) == before


def test_stopped_in_the_middle_of_a_block_the_look_is_the_same(bench):
    made = bench()
    samples = made.samples(DECIDED | {"two": 701.0}, blocks=16)
    whole = made.look(samples)
    rng = np.random.default_rng(1)
    later = samples[samples["block"] >= 8].index.to_numpy()
    for count in (1, 5, 17):
        part = samples.drop(rng.choice(later, count, replace=False))
        assert made.look(part.sample(frac=1, random_state=count)) == whole


def test_final_measurements_do_not_change_a_look(bench):
    made = bench()
    samples = made.samples(DECIDED | {"two": 701.0})
    finals = made.samples({"base": 1.0, "one": 700.0, "two": 5.0}).assign(kind="final")
    both = pd.concat([samples, finals], ignore_index=True)
    assert made.look(both) == made.look(samples)


# ---- what failed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [{}, {"base": 1000.0}])
def test_where_no_rival_was_measured_nothing_follows(bench, times):
    made = bench()
    samples = made.samples(times) if times else empty_samples()
    assert made.look(samples).visits == ()
    assert made.final(samples).visits == ()


def test_problems_of_a_single_cell_have_no_later_looks(bench):
    rule = "[{name: x, when: {problem: q, variant: {not: one}}}]"
    made = bench(problems="{list: [p, q]}", exclude=rule)
    samples = made.samples(dict.fromkeys(DECIDED, 1000.0), scatter=NOISY)
    assert visited(made.look(samples)) == {f"{variant}..p" for variant in DECIDED}
    assert all(cell.endswith("..p") for cell in visited(made.final(samples)))


# ---- questions of a page -------------------------------------------------------------------------


def test_a_progression_asks_about_each_step(bench):
    made = bench(page="{kind: progression, references: [three]}")
    assert made.plan.pairs == (("two", "one"),)
    made = bench("[base, v1, v2, v3, v4]", page="{kind: progression}")
    assert made.plan.pairs == (("v2", "v1"), ("v3", "v2"), ("v4", "v3"))
    # v4 is best and ahead of the baseline; v1 and v2 are not told apart.
    times = {"base": 1000.0, "v1": 900.0, "v2": 891.0, "v3": 800.0, "v4": 500.0}
    samples = made.samples(times)
    assert variants_of(made.look(samples)) == {"base", "v1", "v2"}
    assert made.without_pairs().look(samples).visits == ()


def test_an_ablation_asks_about_each_change_of_one_parameter(bench):
    variants = "[{name: base, how: lib}, {x: 1, y: 1}, {x: 2, y: 1}, {x: 1, y: 2}]"
    made = bench(variants, page="{kind: ablation}")
    asked = {frozenset(pair) for pair in made.plan.pairs}
    assert asked == {frozenset(("x=1.y=1", "x=2.y=1")), frozenset(("x=1.y=1", "x=1.y=2"))}
    assert ("x=2.y=1", "x=1.y=1") in made.plan.pairs  # after, before
    only = bench(variants, page="{kind: ablation, parameters: [y]}")
    assert only.plan.pairs == (("x=1.y=2", "x=1.y=1"),)
    times = {"base": 1000.0, "x=1.y=1": 800.0, "x=2.y=1": 792.0, "x=1.y=2": 500.0}
    samples = made.samples(times)
    found = variants_of(made.look(samples))
    assert found == {"base", "x=1.y=1", "x=2.y=1"}
    assert only.look(samples).visits == ()


def test_other_pages_ask_about_the_best_only(bench):
    assert bench(page="{kind: versions}").plan.questions == ("best", "baseline")
    assert bench(page="{kind: autotune}").plan.pairs == ()


def test_a_page_decides_what_is_asked_only_where_the_spec_does_not(bench):
    ladder = bench(page="{kind: versions}", questions="[best, steps]").plan
    assert ladder.questions == ("best", "steps")
    assert ladder.pairs == (("two", "one"), ("three", "two"))
    shown = bench(page="{kind: progression}", questions="best").plan
    assert (shown.questions, shown.pairs) == (("best",), ())


def test_what_nobody_asks_about_gets_no_further_look(bench):
    close = DECIDED | {"two": 707.0}  # by the margin behind the best: neither same nor slower
    asking_best, asking_steps = bench(questions="best"), bench(questions="[steps]")
    samples = asking_best.samples(close)
    assert variants_of(asking_best.look(samples)) == {"base", "one", "two"}
    assert asking_best.plan.has_final
    assert variants_of(asking_steps.look(samples)) == {"base", "one", "two"}, "a step is open"
    decided = asking_steps.samples(DECIDED)
    assert asking_steps.look(decided).visits == ()
    assert not asking_steps.plan.has_final, "nobody asked which one is the best"


def test_no_such_question(bench):
    with pytest.raises(SpecError, match=r"questions.*'best', 'baseline', 'steps' or 'effects'"):
        bench(questions="[winner]")


def test_a_step_whose_version_is_excluded_at_a_problem_is_not_asked_there(bench):
    made = bench(
        "[base, v1, v2, v3]",
        problems="{list: [p, q]}",
        exclude="[{name: x, when: {problem: q, variant: v2}}]",
        page="{kind: progression}",
    )
    samples = made.samples({"base": 1000.0, "v1": 900.0, "v2": 891.0, "v3": 500.0})
    later = made.look(samples)
    assert visited(later) == {"base..p", "v1..p", "v2..p"}


# ---- finals --------------------------------------------------------------------------------------


def test_finalists_are_measured_once_more_beside_baseline_and_references(bench):
    made = bench(page="{references: [three]}")
    final = made.final(made.samples(DECIDED))
    assert (final.name, final.collector, final.kind) == ("ncu-final", "ncu", SessionKind.FINAL)
    assert final.metrics[:2] == ("duration_ns", "cycles")
    assert {*final.metrics} == {*made.plan.sessions[0].metrics, "cycles"}
    assert Counter((visit.cell, visit.arm) for visit in final.visits) == {
        ("base..default", 0): 12,
        ("base..default", 1): 12,
        ("one..default", 0): 12,
        ("three..default", 0): 12,
    }


def test_finals_use_all_blocks(bench):
    made = bench()
    behind = {"two": [701.0] * 8 + [900.0] * 24}
    samples = made.samples(DECIDED | behind, blocks=32)
    assert variants_of(made.final(samples)) == {"base", "one"}


@pytest.mark.parametrize(
    ("collectors", "judged"),
    [
        ("ncu", "ncu-timing"),
        ("[timer, ncu]", "ncu-timing"),
        ("[wall_clock, timer]", "timer"),
        ("[wall_clock, torch_kernels]", "torch-kernels"),
        ("wall_clock", "wall-clock"),
    ],
)
def test_looks_and_finals_follow_the_timer_that_is_believed_most(bench, collectors, judged):
    made = bench(collect=f"{{collectors: {collectors}, blocks: 8, metrics: default}}")
    found = [each.name for each in made.plan.sessions if is_judged(made.plan, each)]
    assert found == [judged]


def test_the_final_of_the_timer_has_its_own_name(bench):
    made = bench(collect="{collectors: timer, blocks: 8, final_blocks: 6}")
    samples = made.samples(DECIDED, collector="timer").drop(columns="cycles")
    final = made.final(samples)
    assert (final.name, final.collector) == ("timer-final", "timer")
    assert {visit.block for visit in final.visits} == set(range(6))


def test_finals_have_an_order_of_their_own(bench):
    made = bench()
    final = made.final(made.samples(DECIDED | {"two": 701.0, "three": 702.0}))
    first = made.plan.sessions[0]
    assert visited(final) == visited(first)
    assert final.visits != first.visits


def test_finalists_are_capped_and_the_fastest_stay(bench):
    names = [f"v{n}" for n in range(MOST_FINALISTS + 3)]
    made = bench(f"[base, {', '.join(names)}]")
    times = {name: 700.0 + 0.01 * n for n, name in enumerate(reversed(names))}
    samples = made.samples({"base": 1000.0, **times}, scatter=np.zeros(8))
    assert variants_of(made.final(samples)) == {"base", *names[-MOST_FINALISTS:]}


def test_the_cap_holds_for_each_problem(bench):
    names = [f"v{n}" for n in range(MOST_FINALISTS + 1)]
    made = bench(f"[base, {', '.join(names)}]", problems="{list: [p, q]}")
    times = dict.fromkeys(names, 700.0)
    final = made.final(made.samples({"base": 1000.0, **times}))
    counts = Counter(cell.rpartition("..")[2] for cell in visited(final))
    assert counts == {"p": MOST_FINALISTS + 1, "q": MOST_FINALISTS + 1}


@pytest.mark.parametrize(
    ("collect", "expected"),
    [
        ("{blocks: [8, 16, 32]}", True),
        ("{blocks: 6, final_blocks: 6}", True),
        ("{blocks: [2, 4, 6]}", True),
        ("{blocks: 5}", False),
        ("{blocks: 2}", False),
        ("{final_blocks: 5}", False),
        ("{final_blocks: 0}", False),
    ],
)
def test_a_final_needs_six_blocks_before_and_in_it(bench, collect, expected):
    assert bench(collect=collect).plan.has_final is expected


@pytest.mark.parametrize("variants", ["[base]", "[base, one]"])
def test_without_a_choice_there_is_no_final(bench, variants):
    assert not bench(variants).plan.has_final


def test_only_problems_with_a_choice_are_in_the_final(bench):
    exclude = "[{name: too large, when: {variant: [two, three], problem: q}}]"
    made = bench(problems="{list: [p, q]}", exclude=exclude)
    final = made.final(made.samples({"base": 1000.0, "one": 700.0, "two": 701.0, "three": 1000.0}))
    assert visited(final) == {"base..p", "one..p", "two..p"}
