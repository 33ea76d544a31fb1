"""A search under way: its strategy, and the records of its journal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from profiler.model import Params
from profiler.search.estimates import (
    Estimate,
    Noise,
    block_values,
    estimate_noise,
    estimates,
    finalists,
    is_behind,
    looks_by_variant,
)
from profiler.search.journal import (
    Evaluated,
    Finished,
    Proposed,
    Record,
    RepeatedLook,
    RunnerEnded,
    SearchJournal,
    SearchRecord,
    Terms,
    WorkerJoined,
    records_with_origin,
    search_record,
)
from profiler.search.space import SearchSpace
from profiler.search.strategies import SearchHistory, make_strategy


class LiveSearch:
    """Proposes variants and takes their results; each record is written to the journal first.

    A journal with records of the same terms is replayed: the strategy proposes, and its history
    gets values, in the same order, so that the search goes on as if it had never stopped.
    """

    def __init__(
        self, terms: Terms, variants: Mapping[str, Params], journal: SearchJournal
    ) -> None:
        """`variants`: parameters by variant id, of all configurations."""
        self._space = SearchSpace.of_configurations(list(variants.values()))
        self._id_of = {self._configuration(params): id_ for id_, params in variants.items()}
        self._params = variants
        self._objective = terms.objective
        self._history = SearchHistory(self._space)
        self._strategy = make_strategy(terms.strategy, self._history, terms.seed)
        self._journal = journal
        self._records: list[Record] = []
        self.diverged = False
        """Whether the strategy proposed other variants than the journal has (another version of the
        profiler): the values of the journal count all the same."""
        self.left_out = 0
        """Number of records that do not count: the record of their proposal is lost."""
        journal.cut_torn_line()
        if next(iter(journal.records), None) != terms:
            journal.clear()
            self._write(terms)
        else:
            records = records_with_origin(journal.records, variants)
            self.left_out = len(journal.records) - len(records)
            for record in records:
                self._replay(record)

    def _configuration(self, params: Params) -> int:
        configuration = self._space.find(params)
        if configuration is None:
            raise ValueError(f"no configuration of the space: {dict(params)}")
        return configuration

    def _write(self, record: Record) -> None:
        self._journal.append(record)
        self._keep(record)

    def _keep(self, record: Record) -> None:
        self._records.append(record)
        for outdated in ("record", "noise", "estimates"):
            vars(self).pop(outdated, None)

    # ---- replay of the journal ----

    def _replay(self, record: Record) -> None:
        self._keep(record)
        if isinstance(record, Proposed):
            self._propose_again(self._configuration(record.params))
        elif isinstance(record, Evaluated):
            self._tell_history(record)

    def _propose_again(self, configuration: int) -> None:
        if not self.diverged:
            proposal = next(self._strategy)
            self.diverged = proposal != configuration
            if self.diverged:  # not measured: it may be proposed later
                self._history.seen[proposal] = False
                self._history.unseen_count += 1
        self._history.mark_proposed(configuration)

    # ---- forward ----

    @cached_property
    def record(self) -> SearchRecord:
        """All records so far."""
        record = search_record(tuple(self._records))
        if record is None:
            raise ValueError("a search begins with its terms")
        return record

    @property
    def exhausted(self) -> bool:
        """Whether every configuration was proposed."""
        return self._history.unseen_count == 0

    def propose(self) -> str:
        """Id of the variant that the strategy proposes; there must be an unseen one."""
        configuration = next(self._strategy)
        variant = self._id_of[configuration]
        is_random_draw = configuration in self._history.random_draws
        self._write(Proposed(variant, dict(self._params[variant]), is_random_draw))
        return variant

    def take(self, evaluated: Evaluated) -> None:
        """Take the result of a proposal."""
        self._write(evaluated)
        self._tell_history(evaluated)

    def take_look(
        self, variant: str, log_ratios: Mapping[str, tuple[float, ...]], worker: str = ""
    ) -> None:
        """Take another look at a variant; the strategy keeps the value of the first look."""
        self._write(RepeatedLook(variant, log_ratios, worker))

    def note_worker(self, worker: WorkerJoined) -> None:
        """Append the record of a GPU that measures, once."""
        if worker not in self._records:
            self._write(worker)

    def note_runner_end(self, cause: str) -> None:
        """Append the record of an early end of the measuring process."""
        self._write(RunnerEnded(cause))

    def finish(self) -> tuple[str, ...]:
        """Variant ids of the finalists, the best first; ends the search."""
        record = self.record
        if record.finished is not None and record.finished == self._records[-1]:
            return record.finished.finalists
        best_variants = finalists(record)
        self._write(Finished("space" if self.exhausted else "budget", best_variants))
        return best_variants

    def _tell_history(self, evaluated: Evaluated) -> None:
        configuration = self._configuration(self._params[evaluated.variant])
        values = block_values(evaluated.log_ratios, self._objective)
        value = math.exp(sum(values) / len(values)) if values else None
        self._history.tell(configuration, value)

    # ---- values ----

    @cached_property
    def noise(self) -> Noise:
        """Noise of the values so far."""
        return estimate_noise(looks_by_variant(self.record))

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Estimates by id of the measured variants."""
        return estimates(self.record)

    def best(self) -> Estimate | None:
        """The variant with the smallest value; None while everything failed."""
        measured = self.estimates.values()
        return min(measured, key=lambda measured_estimate: measured_estimate.value, default=None)

    def is_behind(self, log_ratios: Mapping[str, tuple[float, ...]]) -> bool:
        """Whether a variant with these blocks is clearly behind the best."""
        return is_behind(log_ratios, self.best(), self._objective, self.noise)
