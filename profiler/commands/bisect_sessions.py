"""The sessions of a bisection: commits are built and measured side by side, and a journal kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from profiler.commands.requests import BisectRequest, run_request
from profiler.commands.revisions import MeasuredRevisions, measure_versions, pair_verdict
from profiler.errors import EnvironmentUnusable, SpecError, UsageError
from profiler.machine.environment import resolved_architecture
from profiler.model import Outcome, Verdict
from profiler.revisions.journal import Journal
from profiler.revisions.programs import build_programs
from profiler.revisions.report import skipped_line
from profiler.revisions.repository import Commit, Repository
from profiler.revisions.steps import Change, Survey
from profiler.revisions.versions import Version, Wanted, read_version
from profiler.sessions.execution import build_root
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from profiler.findings.findings import Findings
    from profiler.model import Cell

DURATION = "duration_ns"


@dataclass(eq=False)
class CommitSessions:
    """Builds and measures commits of a history by their places in it; the journal keeps answers."""

    request: BisectRequest
    reporter: ProgressReporter
    repository: Repository
    history: tuple[Commit, ...]
    journal: Journal
    only: str | None
    _versions: dict[int, Version] = field(default_factory=dict)

    def follow(self, cell: str) -> None:
        """Look at one cell alone from now on."""
        self.only = f"cell={cell}"
        self._versions.clear()

    def version(self, place: int) -> Version:
        """The experiment as a commit has it."""
        if place not in self._versions:
            wanted = Wanted(self.request.spec, self.request.overrides, self.only)
            commit = self.history[place]
            self._versions[place] = read_version(self.repository, commit, wanted, self.request.out)
        return self._versions[place]

    def prepare(self, places: Sequence[int]) -> list[str | None]:
        """Program of each commit, None where it cannot be built; builds those that are missing."""
        missing = [place for place in places if self._question(place) not in self.journal]
        programs: dict[int, tuple[str | None, str]] = {}
        versions: dict[int, Version] = {}
        for place in missing:
            try:
                versions[place] = self.version(place)
            except (SpecError, UsageError) as error:
                programs[place] = None, error.message
        if versions:
            arch = resolved_architecture(next(iter(versions.values())).loaded.experiment.build.arch)
            root = build_root(self.request.out.resolve())
            built = build_programs([*versions.values()], arch, root)
            programs |= dict(zip(versions, built, strict=True))
        for place, answer in programs.items():
            self.journal.answer(self._question(place), partial(list, answer))
            if answer[0] is None:
                self.reporter.say(skipped_line(self.history[place], answer[1]))
        return [self.program(place) for place in places]

    def program(self, place: int) -> str | None:
        """Program of a commit that was prepared; None where it cannot be built."""
        name: str | None = self.journal.answer(self._question(place), list)[0]
        return name

    def last_record(self, before: int, after: int) -> dict[str, Any]:
        """What the last session of two commits alone gave; empty where there was none."""
        hashes = (self.history[before].hash, self.history[after].hash)
        answer: dict[str, Any] = {}
        attempt = 0
        while ("survey", *hashes, attempt) in self.journal:
            answer = self.journal.answer(("survey", *hashes, attempt), dict)
            attempt += 1
        return answer

    def _question(self, place: int) -> tuple[str, str]:
        return ("program", self.history[place].hash)

    def why_skipped(self, place: int) -> str:
        """Why a commit was not built, or gave no right result."""
        _, build = self.journal.answer(self._question(place), lambda: [None, ""])
        return str(build) or self._failure(place)

    def _failure(self, place: int) -> str:
        return str(self.journal.answer(("failed", self.history[place].hash), str))

    def measure(self, places: Sequence[int], attempt: int) -> Survey:
        """One session of commits; that of an earlier process is not made again."""
        question = ("survey", *(self.history[place].hash for place in places), attempt)
        record = self.journal.answer(question, partial(self._survey, places, attempt))
        return Survey(
            steps=tuple(_change(step) for step in record["steps"]),
            whole=_change(record["whole"]),
            failed=tuple(places[number] for number in record["failed"]),
        )

    def _survey(self, places: Sequence[int], attempt: int) -> dict[str, Any]:
        """One session, as the journal keeps it."""
        names = ", ".join(self.history[place].short for place in places)
        self.reporter.say(f"Session of {len(places)} commits: {names}")
        versions = [self.version(place) for place in places]
        pair = len(places) == 2
        measured = self.measured(versions, explained=pair, attempt=attempt)
        if measured.run is None:
            raise EnvironmentUnusable("The commits of a session have the same sources.")
        findings = measured.run.findings
        programs = findings.programs
        cells = {cell.variant.name: cell for cell in programs.plan.cells}
        in_order = [cells.get(commit.short) for commit in measured.commits]
        failed = [
            number
            for number, cell in enumerate(in_order)
            if cell is None or not programs.correct(cell)
        ]
        for number in failed:
            self._note_failure(places[number], findings, in_order[number])
        if failed:
            none = asdict(Change(Verdict.NO_DATA))
            return {"steps": [], "whole": finite(none), "failed": failed}
        pairs = [*pairwise(in_order), (in_order[0], in_order[-1])]
        changes = [self.change(findings, new, old) for old, new in pairs if old and new]
        return {
            "steps": [finite(asdict(change)) for change in changes[:-1]],
            "whole": finite(asdict(changes[-1])),
            "failed": [],
            "page": None if measured.run.page is None else str(measured.run.page),
            "why": _why(findings) if pair and findings.report.details.profiles else [],
        }

    def _note_failure(self, place: int, findings: Findings, cell: Cell | None) -> None:
        """Keep why a commit gave no right result; raises where nobody knows."""
        if cell is None:
            reason = "its cell was not planned"
        else:
            status = findings.programs.status(cell)
            if status.outcome is Outcome.NOT_MEASURED:
                raise EnvironmentUnusable(
                    f"The session ended before {self.history[place].short} was measured.",
                    remedy="The same command goes on.",
                )
            reason = f"{status.outcome.value}: {status.cause}"
        self.journal.answer(("failed", self.history[place].hash), lambda: reason)
        self.reporter.say(skipped_line(self.history[place], reason))

    def measured(
        self, versions: Sequence[Version], *, explained: bool, attempt: int = 0
    ) -> MeasuredRevisions:
        """Measure versions; once more, with twice the blocks, where there was an attempt before."""
        if attempt:
            blocks = 2 * max(versions[-1].loaded.experiment.collect.blocks)
            versions = [_with_blocks(version, blocks) for version in versions]
        unseen = not explained
        flags = {"fresh": attempt > 0, "live": True, "no_explain": unseen, "no_report": unseen}
        asked = run_request(self.request, **flags)
        return measure_versions(asked, self.repository, versions, self.reporter)

    def change(self, findings: Findings, new: Cell, old: Cell) -> Change:
        """The metric in one cell against another."""
        if self.request.metric != DURATION:
            return self._metric_change(findings, new, old)
        pair = pair_verdict(findings, new, old)
        return Change(pair.verdict or Verdict.NO_DATA, pair.ratio, pair.low, pair.high)

    def _metric_change(self, findings: Findings, new: Cell, old: Cell) -> Change:
        """Medians differ where they do by more than the margin, and their intervals do not meet.

        More is called SLOWER.
        """
        names = [label.name for label in findings.numbers.metrics]
        if self.request.metric not in names:
            raise UsageError(
                f"--metric {self.request.metric}: not measured; there are {', '.join(names)}"
            )
        after, before = (findings.numbers.value(c, self.request.metric) for c in (new, old))
        if not (after.present and before.present and before.median):
            return Change(Verdict.NO_DATA)
        ratio = after.median / before.median
        margin = self.version(0).loaded.experiment.margin_pct / 100
        intervals_meet = after.low <= before.high and after.high >= before.low
        differs = abs(ratio - 1) > margin and not intervals_meet
        verdict = Verdict.SAME if not differs else Verdict.SLOWER if ratio > 1 else Verdict.FASTER
        low, high = after.low / before.high, after.high / before.low
        return Change(verdict, ratio, low, high)


def _with_blocks(version: Version, blocks: int) -> Version:
    """A version whose session has so many blocks."""
    loaded = version.loaded
    collect = loaded.experiment.collect.model_copy(update={"blocks": (blocks,)})
    experiment = loaded.experiment.model_copy(update={"collect": collect})
    return replace(version, loaded=replace(loaded, experiment=experiment))


def _why(findings: Findings) -> list[str]:
    """Why the later of a pair takes as long as it does, as its page says it first."""
    from profiler.render.words.cards import first_answer
    from profiler.render.words.sentences import spoken

    sentences = map(spoken, first_answer(findings))
    return [sentence for sentence in sentences if sentence.startswith("Why")]


def _change(record: dict[str, Any]) -> Change:
    numbers = (record[name] for name in ("ratio", "low", "high"))
    return Change(Verdict(record["verdict"]), *(math.nan if n is None else n for n in numbers))


def finite(record: dict[str, Any]) -> dict[str, Any]:
    """A record with None where a number is not known, as JSON has it."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
