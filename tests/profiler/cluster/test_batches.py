"""Batches of a search: who gets how many, and what counts where one ends badly."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from profiler.cluster.coordinator import BATCH, BatchShare
from profiler.cluster.giving import Piece
from profiler.cluster.parcels import packed_run
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.model import BuildResult, Environment, Outcome, SearchPlan, Variant
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder, RunRecord, Worker
from profiler.run_folder.workers import note_environment
from profiler.search.journal import Evaluated, RepeatedLook, SearchJournal, Terms
from profiler.search.live_search import LiveSearch
from profiler.sessions.search.proposals import Proposals

VARIANTS = {f"x={x}": {"x": x} for x in range(40)}
WORKERS = {"GPU-a": "tcp://a", "GPU-b": "tcp://b"}
FAILED = EnvironmentUnusable("a full disk")


class InstantBuilds:
    """Builds nothing, and is done at once."""

    def __init__(self):
        self.built = {}

    def submit(self, variants):
        self.built |= {v.id: (BuildResult(v.id, ok=True), 0.0) for v in variants}

    def take_built(self, _):
        built, self.built = self.built, {}
        return built


@dataclass(kw_only=True)
class Searching(BatchShare):
    """A search that takes down the batches it gave."""

    folder: Path
    batches: list[Piece] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)

    def advance(self):
        self._looked_at = 0.0
        is_left = super().advance()
        self.batches += [given for given in self.given_pieces if given not in self.batches]
        return is_left

    def step(self):
        """Go on; gives whether the search is under way."""
        if not self.is_begun:
            self.begin()
            self.is_begun = True
        is_left = self.advance()
        if not is_left:
            self.finalists = self.proposals.finish()
        return is_left

    is_begun: bool = False


def finish(search, batch, variants, *, looks=0, failed=None):
    """Have a batch end with results of some of its configurations."""
    its = RunFolder(search.folder / f"its-{len(search.batches)}-{batch.worker}")
    its.path.mkdir(exist_ok=True)
    environment = Environment(gpu="a GPU", gpu_uuid=f"GPU-{batch.worker == 'GPU-b':d}")
    its.write_record(RunRecord("mine", "2026-03-04T10:00:00+00:00", 1, environment, {}))
    its.write_seconds((), ())
    note_environment(its, environment)
    records = SearchJournal(its.path / SEARCH_JOURNAL_FILE)
    records.clear()
    for _ in range(looks):
        records.append(RepeatedLook(str(incumbent_of(batch)), {"small": (0.0, 0.0)}))
    for variant in variants:
        ratios = (0.01 * VARIANTS[variant]["x"],) * 2
        records.append(Evaluated(variant, Outcome.MEASURED, log_ratios={"small": ratios}))
    future = batch.future
    future.status = "finished" if failed is None else "error"
    future.exception.return_value = failed
    search.sent.append((future.key, [], packed_run(its, [])))


def incumbent_of(batch):
    """The best so far, which is measured beside a batch."""
    return batch.future.batch.incumbent


@pytest.fixture
def searching(tmp_path, monkeypatch):
    module = "profiler.cluster.coordinator"
    monkeypatch.setattr(f"{module}.plan_part", lambda *_: SimpleNamespace(cells=()))
    monkeypatch.setattr(
        f"{module}.worker_of",
        lambda _run, _arrived, environment, _seed: Worker(f"worker-{environment.gpu_uuid[-1]}"),
    )

    def make(evaluations):
        terms = Terms(
            key="today",
            strategy="exhaustive",
            seed=1,
            objective="geomean",
            baseline="base",
            problems=("small",),
            parameters={"x": tuple(range(40))},
            configurations=40,
            left_out=0,
        )
        plan = SearchPlan(
            strategy="exhaustive",
            seed=1,
            objective="geomean",
            variants=tuple(VARIANTS),
            problems=("small",),
            evaluations=evaluations,
        )
        journal = SearchJournal(tmp_path / "journal.jsonl")
        search = Mock(terms=terms, plan=plan, builds=(), jobs=2, needs_builds=False)
        search.variants = {id_: Variant(id_, id_) for id_ in VARIANTS}
        team = Mock(device="a GPU", run=RunFolder(tmp_path), builds=())
        team.submit.side_effect = lambda *_, batch: Mock(status="pending", batch=batch)
        team.addresses.return_value = WORKERS
        sent = []
        team.queue.get.side_effect = lambda **_: [sent.pop(0) for _ in sent[:]]
        return Searching(
            folder=tmp_path,
            sent=sent,
            team=team,
            proposals=Proposals(search, LiveSearch(terms, VARIANTS, journal), InstantBuilds()),
        )

    return make


def test_each_worker_has_a_batch_and_nothing_is_proposed_twice(searching):
    search = searching(12)
    search.step()
    search.step()
    assert [len(batch.ids) for batch in search.batches] == [BATCH, BATCH]
    for batch in search.batches:
        finish(search, batch, [*batch.ids])
    search.step()
    search.step()
    rest = search.batches[2:]
    assert [len(batch.ids) for batch in rest] == [1, 1], "shared out at the end"
    proposed = [*search.proposals.live.record.proposed]
    assert len(proposed) == len(set(proposed)) == 12
    for batch in rest:
        finish(search, batch, [*batch.ids], looks=1)
    assert not search.step()
    assert search.finalists[0] == "x=0"
    workers = [evaluated.worker for evaluated in search.proposals.live.record.evaluations]
    assert sorted(workers[: 2 * BATCH]) == ["worker-0"] * BATCH + ["worker-1"] * BATCH
    assert set(workers[2 * BATCH :]) == {"worker-0", "worker-1"}
    assert [look.variant for look in search.proposals.live.record.looks] == ["x=0", "x=0"]


def test_a_search_that_has_ended_gives_nothing(searching):
    search = searching(2)
    search.step()
    search.step()
    for batch in search.batches:
        finish(search, batch, [*batch.ids])
    assert not search.step()
    again = searching(2)
    assert not again.step()
    assert not again.batches
    assert again.finalists == search.finalists == ("x=0", "x=1")
    more = searching(3)
    for _ in range(2):
        more.step()
    assert [[*batch.ids] for batch in more.batches] == [["x=2"]]
    assert incumbent_of(more.batches[0]) == "x=0", "built once more"


def test_a_batch_that_is_begun_again_counts_each_result_once(searching):
    search = searching(BATCH)
    search.team.addresses.return_value = {"GPU-a": "tcp://a"}
    search.step()
    search.step()
    (lost,) = search.batches
    variants, future = [*lost.ids], lost.future
    search.team.addresses.return_value = {"GPU-b": "tcp://b"}
    for _ in range(3):  # its worker died, and another one gets the batch
        search.step()
    lost.future = future
    finish(search, lost, variants[:1])
    finish(search, search.batches[-1], variants)
    assert not search.step()
    evaluated = [evaluated.variant for evaluated in search.proposals.live.record.evaluations]
    assert evaluated == variants


def test_what_is_open_of_a_failed_batch_goes_to_others_until_there_are_none(searching):
    search = searching(40)
    search.step()
    search.step()
    first = next(batch for batch in search.batches if batch.worker == "GPU-a")
    second = next(batch for batch in search.batches if batch.worker == "GPU-b")
    variants = [*first.ids]
    finish(search, first, variants[:1], failed=FAILED)
    finish(search, second, [*second.ids])
    search.step()
    search.step()
    heir = search.batches[-1]
    assert heir.worker == "GPU-b"
    assert set(variants[1:]) <= {*search.open, *heir.ids}
    assert [evaluated.variant for evaluated in search.proposals.live.record.evaluations].count(
        variants[0]
    ) == 1
    finish(search, heir, [], failed=FAILED)
    with pytest.raises(ProfilerError, match="a full disk"):
        search.step()


def test_batches_that_end_without_a_word_are_given_again_and_not_for_ever(searching):
    search = searching(40)
    search.step()
    search.step()
    first, second = search.batches
    open_then = set(first.ids)
    finish(search, first, [], failed=KeyError())
    search.step()
    finish(search, second, [*second.ids])
    search.step()
    heir = search.batches[-1]
    assert set(heir.ids) == open_then, "before all else"
    finish(search, heir, [], failed=KeyError())
    with pytest.raises(EnvironmentUnusable):
        search.step()
