"""Batches of a search: who gets how many, and what counts where one ends badly."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from profiler.cluster.batch_task import EVALUATED, JOINED, LOOKED
from profiler.cluster.device import Device
from profiler.cluster.device_search import BATCH, MOST_TRIES, DeviceSearch
from profiler.cluster.on_worker import FINISHED
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.model import BuildResult, SearchPlan
from profiler.search.live.journal import SearchJournal
from profiler.search.live.records import Terms
from profiler.search.live.state import LiveSearch
from profiler.sessions.search.background_builds import Built

VARIANTS = {f"x={x}": {"x": x} for x in range(40)}
WORKERS = {"tcp://a": "GPU-a", "tcp://b": "GPU-b"}
FAILED = {"failed": {"message": "a full disk", "remedy": None, "exit_code": 3}}


class InstantBuilds:
    """Builds nothing, and is done at once."""

    def __init__(self) -> None:
        self.built: dict[str, Built] = {}

    def submit(self, variants: list[str]) -> None:
        self.built |= {id_: Built(BuildResult(id_, ok=True), 0.0) for id_ in variants}

    def take_built(self) -> dict[str, Built]:
        built, self.built = self.built, {}
        return built


@dataclass
class Searching(DeviceSearch):
    """A search that takes down the tasks it gave."""

    given: list[str] = field(default_factory=list)

    def _submit(self, candidates: dict[str, Built], workers: tuple[str, ...]) -> None:
        super()._submit(candidates, workers)
        self.given.append([*self._batches][-1])

    def _joined(self, document: Any) -> str:
        return str(document["worker"])

    def candidates(self, task: str) -> list[str]:
        return [*self._batches[task].open]

    def send(self, task: str, kind: str, execution: str = "first", **document: Any) -> None:
        if self.has(task):
            sent = {"kind": kind, "execution": execution, **document}
            self.take(task, "tcp://a", json.loads(json.dumps(sent)), {})

    def measured(self, task: str, variant: str, execution: str = "first") -> None:
        ratios = {"small": [0.01 * VARIANTS[variant]["x"]] * 2}
        result = {"variant": variant, "outcome": "measured", "log_ratios": ratios}
        self.send(task, EVALUATED, execution, result=result)


@pytest.fixture
def searching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Searching]:
    module = "profiler.cluster.device_search"
    monkeypatch.setattr(f"{module}.searched_part", lambda *_: SimpleNamespace(cells=()))
    monkeypatch.setattr(f"{module}.source_hashes", lambda *_: {})
    monkeypatch.setattr(f"{module}.path_from_here", lambda path: path)
    monkeypatch.setattr(f"{module}.Batch", lambda **fields: SimpleNamespace(**fields, text=str))

    def make(evaluations: int) -> Searching:
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
        search.variants = {id_: id_ for id_ in VARIANTS}
        link = Mock(queue="queue")
        link.addresses.return_value = WORKERS
        return Searching(
            link=link,
            device=Device("a GPU"),
            run=Mock(),
            search=search,
            live=LiveSearch(terms, VARIANTS, journal),
            builds=cast(Any, InstantBuilds()),
            shelf=Mock(**{"sent.return_value": ()}),
        )

    return make


def test_each_worker_has_a_batch_and_nothing_is_proposed_twice(
    searching: Callable[..., Searching],
) -> None:
    search = searching(12)
    search.give()
    search.give()
    assert [len(search.candidates(task)) for task in search.given] == [BATCH, BATCH]
    first, second = search.given
    for task in (first, second):
        search.send(task, JOINED, worker=f"worker-{task == second:d}")
        for variant in search.candidates(task):
            search.measured(task, variant)
        search.send(task, FINISHED, failed=None)
    search.give()
    search.give()
    rest = search.given[2:]
    assert [len(search.candidates(task)) for task in rest] == [1, 1], "shared out at the end"
    proposed = [*search.live.record.proposed]
    assert len(proposed) == len(set(proposed)) == 12
    for task in rest:
        search.send(task, JOINED, worker="worker-0")
        search.send(task, LOOKED, log_ratios={"small": [0.0, 0.0]})
        for variant in search.candidates(task):
            search.measured(task, variant)
        search.send(task, FINISHED, failed=None)
    search.give()
    assert search.is_done
    assert search.finalists[0] == "x=0"
    workers = [evaluated.worker for evaluated in search.live.record.evaluations]
    assert workers == ["worker-0"] * BATCH + ["worker-1"] * BATCH + ["worker-0"] * 2
    assert [look.variant for look in search.live.record.looks] == ["x=0", "x=0"]


def test_a_search_that_has_ended_gives_nothing(searching: Callable[..., Searching]) -> None:
    search = searching(2)
    search.give()
    search.give()
    for task in search.given:
        search.measured(task, search.candidates(task)[0])
        search.send(task, FINISHED, failed=None)
    search.give()
    again = searching(2)
    again.give()
    assert again.is_done
    assert not again.given
    assert again.finalists == search.finalists == ("x=0", "x=1")
    more = searching(3)
    for _ in range(2):
        more.give()
    assert [more.candidates(task) for task in more.given] == [["x=2"]]
    incumbent = more._batches[more.given[0]].incumbent
    assert incumbent == "x=0", "built once more"


def test_a_batch_that_is_begun_again_counts_each_result_once(
    searching: Callable[..., Searching],
) -> None:
    search = searching(BATCH)
    search.give()
    search.give()
    task = search.given[0]
    variants = search.candidates(task)
    search.measured(task, variants[0])
    for variant in variants:  # the worker died, and Dask gave the batch to another
        search.measured(task, variant, execution="second")
    search.measured(task, variants[0])
    evaluated = [evaluated.variant for evaluated in search.live.record.evaluations]
    assert evaluated == variants


def test_what_is_open_of_a_failed_batch_goes_to_others_until_there_are_none(
    searching: Callable[..., Searching],
) -> None:
    search = searching(40)
    search.give()
    search.give()
    first, second = search.given
    variants = search.candidates(first)
    search.measured(first, variants[0])
    search.send(first, FINISHED, **FAILED)
    search.send(second, FINISHED, failed=None)
    search.give()
    assert set(variants[1:]) <= {*search._ready, *search.candidates(search.given[-1])}
    assert search.link.client.submit.call_args.kwargs["workers"] == ["tcp://b"]
    search.link.addresses.return_value = {}
    search._asked = 0.0
    with pytest.raises(ProfilerError, match="a full disk"):
        search.send(search.given[-1], FINISHED, **FAILED)


def test_batches_that_end_without_a_word_are_given_again_and_not_for_ever(
    searching: Callable[..., Searching],
) -> None:
    search = searching(40)
    search.link.client.submit.return_value.status = "error"
    search.give()
    search.give()
    search.check_tasks()
    assert not search._batches
    search.give()
    assert len(search.given) == 2 + 2 > MOST_TRIES
    with pytest.raises(EnvironmentUnusable):
        search.check_tasks()
