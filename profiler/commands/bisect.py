"""`profiler bisect GOOD..BAD SPEC`: which commit made a kernel slower, by how much, and why."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from profiler.commands.bisect_sessions import CommitSessions, finite
from profiler.commands.output import write_json_target
from profiler.commands.requests import BisectRequest
from profiler.errors import ExitCode, UsageError
from profiler.model import SCHEMA_VERSION, Verdict
from profiler.revisions.bisection import bisect
from profiler.revisions.journal import Journal
from profiler.revisions.report import Account, bisection_lines, cause_of
from profiler.revisions.repository import Commit, Repository
from profiler.revisions.steps import Bisection, Change, Step
from profiler.revisions.versions import FOLDER
from profiler.run_folder.folder import require_folder, write_json
from profiler.sessions.experiment_files import file_and_name
from profiler.sessions.progress import ProgressReporter


def bisect_command(request: BisectRequest) -> ExitCode:
    """Bisect, print what was found, and write it; SOME_CELLS_FAILED where it stays open."""
    from profiler.commands.bisect_axes import AXES, bisect_axis, environments_of

    if request.revisions in AXES or environments_of(request.revisions) is not None:
        return bisect_axis(request)
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    document, is_open = Bisecting.of(request, reporter).run()
    write_json_target(document, request.json_target)
    if request.json_target != "-":
        for line in document["answer"]:
            reporter.results.print(line, markup=False, highlight=False, soft_wrap=True)
    return ExitCode.SOME_CELLS_FAILED if is_open else ExitCode.COMPLETE


@dataclass(eq=False)
class Bisecting:
    """A bisection of one cell of an experiment."""

    request: BisectRequest
    reporter: ProgressReporter
    history: tuple[Commit, ...]
    folder: Path
    sessions: CommitSessions

    @classmethod
    def of(cls, request: BisectRequest, reporter: ProgressReporter) -> Bisecting:
        """A bisection as it is asked for; raises UsageError for what does not exist."""
        good, dots, bad = request.revisions.partition("..")
        if not (good and dots and bad):
            raise UsageError(
                f"{request.revisions}: must look like GOOD..BAD, as in v1.0..HEAD",
                remedy="GOOD is a commit at which the kernel was fast, BAD a later one; or name "
                "what else changed: driver, torch, … (docs/revisions.md#other-axes).",
            )
        repository = Repository.of(request.spec)
        history = repository.history(repository.commit(good), repository.commit(bad))
        require_folder(request.out)
        file, _ = file_and_name(request.spec)
        settings = (request.spec.name, request.cell, request.metric, request.commits)
        commits = tuple(commit.hash for commit in history)
        content = file.read_bytes() if file.is_file() else b""
        asked = repr((*settings, request.overrides, commits, content))
        digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
        name = f"bisect-{history[0].short}-{history[-1].short}-{digest}"
        folder = request.out.resolve() / FOLDER / name
        journal = Journal(folder / "journal.jsonl")
        sessions = CommitSessions(request, reporter, repository, history, journal, request.cell)
        return cls(request, reporter, history, folder, sessions)

    def run(self) -> tuple[dict[str, Any], bool]:
        """Measure until the steps are found; what an earlier process measured is not again.

        Returns what was found as JSON-ready data, and whether sessions or blocks were too few to
        tell.
        """
        if len(self.history) < 2:
            raise UsageError(f"{self.request.revisions}: is one commit")
        self.reporter.say(
            f"{len(self.history) - 1} commits after {self.history[0].short}; "
            f"journal: {self.folder / 'journal.jsonl'}"
        )
        cell = self._cell()
        if cell is None:
            bisection = Bisection(Change(Verdict.SAME, 1.0, 1.0, 1.0), (), (), sessions=1)
        else:
            self.sessions.follow(cell)
            bisection = bisect(
                len(self.history),
                self.sessions.prepare,
                self.sessions.measure,
                commits_a_session=self.request.commits,
                most_sessions=self.request.sessions,
            )
        accounts = {step.after: self._account(step) for step in bisection.steps}
        reasons = {place: self.sessions.why_skipped(place) for place in bisection.skipped}
        what = (cell, self.request.metric)
        lines = list(bisection_lines(bisection, self.history, what, accounts, reasons))
        document = {
            "schema_version": SCHEMA_VERSION,
            "range": self.request.revisions,
            "cell": cell,
            "metric": self.request.metric,
            "sessions": bisection.sessions,
            "whole": finite(asdict(bisection.whole)),
            "steps": [self._step_document(step, accounts[step.after]) for step in bisection.steps],
            "skipped": [
                {"commit": self.history[place].hash, "reason": reason}
                for place, reason in reasons.items()
            ],
            "answer": lines,
        }
        write_json(self.folder / "bisection.json", document)
        unclear = bisection.whole.verdict in (Verdict.UNCLEAR, Verdict.NO_DATA)
        still_open = any(step.change.is_open for step in bisection.steps)
        return document, unclear or still_open or bisection.out_of_sessions

    # ---- which cell ----

    def _cell(self) -> str | None:
        """Id of the cell to follow: the only one, else the one that changed most."""
        answer = self.sessions.journal.answer(("cell", self.request.cell), self._chosen_cell)
        return None if answer is None else str(answer)

    def _chosen_cell(self) -> str | None:
        ends = [self.sessions.version(0), self.sessions.version(len(self.history) - 1)]
        common = [cell for cell in ends[1].cells if cell.id in {c.id for c in ends[0].cells}]
        if len(common) == 1:
            return common[0].id
        measured = self.sessions.measured(ends, explained=False)
        if measured.run is None:
            return None
        findings = measured.run.findings
        changes = [(c, self.sessions.change(findings, c.new, c.old)) for c in measured.comparisons]
        moved = [(compared, change) for compared, change in changes if change.differs]
        if not moved:
            return None
        slower = [pair for pair in moved if pair[1].verdict is Verdict.SLOWER]
        most, _ = max(slower or moved, key=lambda pair: abs(math.log(pair[1].ratio)))
        self.reporter.say(f"Most changed: {most.variant} at {most.problem}; --cell names another.")
        return next(
            cell.id
            for cell in common
            if (cell.variant.name, cell.problem.name) == (most.variant, most.problem)
        )

    # ---- what it is ----

    def _account(self, step: Step) -> Account:
        """Cause, files and last session of a step."""
        places = (step.before, step.after)
        commits = (self.history[place] for place in places)
        last = self.sessions.last_record(*places)
        return Account(
            cause=cause_of(*(str(self.sessions.program(place)) for place in places)),
            files=self.sessions.repository.changed_files(*commits),
            why=tuple(last.get("why", ())),
            page=last.get("page"),
        )

    def _step_document(self, step: Step, account: Account) -> dict[str, Any]:
        return {
            "commit": self.history[step.after].hash,
            "parent": self.history[step.before].hash,
            "state": step.state.value,
            **finite(asdict(step.change)),
            **asdict(account),
        }
