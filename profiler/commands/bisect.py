"""`profiler bisect GOOD..BAD SPEC`: which commit made a kernel slower, by how much, and why.

Commits are built and measured side by side, in sessions, and a journal is kept of the answers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from profiler.commands.compare import (
    MeasuredRevisions,
    failure_of,
    measure_versions,
    pair_verdict,
)
from profiler.commands.output import write_json_target
from profiler.commands.requests import BisectRequest, run_request
from profiler.errors import EnvironmentUnusable, ExitCode, SpecError, UsageError
from profiler.machine.environment import resolved_architecture, visible_gpus
from profiler.model import SCHEMA_VERSION, Outcome, Verdict
from profiler.notices import counted
from profiler.revisions.bisection import (
    UNCHANGED,
    AnswerJournal,
    Bisection,
    CommitChange,
    Step,
    Survey,
    bisect,
)
from profiler.revisions.report import (
    StepAccount,
    bisection_lines,
    cause_of,
    sessions_line,
    skipped_line,
)
from profiler.revisions.repository import Commit, Repository
from profiler.revisions.versions import (
    FOLDER,
    Version,
    build_programs,
    lacking_words,
    lacks_experiment,
    read_version,
)
from profiler.run_folder.documents import write_json
from profiler.run_folder.runs import require_folder
from profiler.sessions.execution import build_root
from profiler.sessions.experiment_files import file_and_name
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from profiler.findings.findings import Findings
    from profiler.model import Cell

DURATION = "duration_ns"


def bisect_command(request: BisectRequest) -> ExitCode:
    """Bisect, print and write the steps; SOME_CELLS_FAILED where a question stays open."""
    from profiler.commands.bisect_axes import AXES, bisect_axis, environments_of

    if request.revisions in AXES or environments_of(request.revisions) is not None:
        return bisect_axis(request)
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    document, is_open = _bisected(_commit_sessions(request, reporter))
    write_json_target(document, request.json_target)
    if request.json_target != "-":
        for line in document["answer"]:
            reporter.results.print(line)
    return ExitCode.SOME_CELLS_FAILED if is_open else ExitCode.COMPLETE


def _commit_sessions(request: BisectRequest, reporter: ProgressReporter) -> CommitSessions:
    """Sessions of a requested bisection; raises UsageError for unknown commits or files."""
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
    if lacks_experiment(repository, history[0], request.spec):
        reporter.warn(lacking_words(history[:1], request.spec))
    file, _ = file_and_name(request.spec)
    settings = (request.spec.name, request.cell, request.metric, request.commits)
    commits = tuple(commit.hash for commit in history)
    content = file.read_bytes() if file.is_file() else b""
    gpus = [gpu.name for gpu in visible_gpus()]  # folders may be shared by machines
    identity = repr((*settings, request.overrides, commits, content, gpus))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    name = f"bisect-{history[0].short}-{history[-1].short}-{digest}"
    folder = request.out.resolve() / FOLDER / name
    journal = AnswerJournal(folder / "journal.jsonl")
    return CommitSessions(request, reporter, repository, history, journal, request.cell)


def _bisected(sessions: CommitSessions) -> tuple[dict[str, Any], bool]:
    """The bisection as JSON-ready data, and whether sessions or blocks were too few to decide.

    Measures until the steps are found; sessions of an earlier process are not measured again.
    """
    request, history = sessions.request, sessions.history
    if len(history) < 2:
        raise UsageError(f"{request.revisions}: is one commit")
    sessions.reporter.say(
        f"{counted(len(history) - 1, 'commit')} after {history[0].short}; "
        f"journal: {sessions.journal.path}"
    )
    cell, choosing_sessions = sessions.journal.answer(
        ("cell, sessions", request.cell), partial(_choose_cell, sessions)
    )
    all_commits = (0, len(history) - 1)
    if cell is None:
        bisection = Bisection(UNCHANGED, all_commits, (), (), sessions=0)
    else:
        sessions.follow(cell)
        bisection = bisect(
            len(history),
            sessions.prepare,
            sessions.measure,
            commits_a_session=request.commits,
            most_sessions=request.sessions - choosing_sessions,
        )
    session_count = bisection.sessions + choosing_sessions
    accounts = {step.after: _account(sessions, step) for step in bisection.steps}
    reasons = {place: sessions.why_skipped(place) for place in bisection.skipped}
    followed = (cell, request.metric)
    lines = [
        *bisection_lines(bisection, history, followed, accounts, reasons),
        sessions_line(session_count, sessions.measured_now),
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "range": request.revisions,
        "cell": cell,
        "metric": request.metric,
        "sessions": session_count,
        "whole": _without_nan(asdict(bisection.total_change)),
        "steps": [_step_document(history, step, accounts[step.after]) for step in bisection.steps],
        "skipped": [
            {"commit": history[place].hash, "reason": reason} for place, reason in reasons.items()
        ],
        "answer": lines,
    }
    write_json(sessions.journal.path.with_name("bisection.json"), document)
    total_change = bisection.total_change
    is_open = (
        bisection.out_of_sessions
        or total_change.is_open
        or (total_change.verdict is Verdict.SAME and bisection.ends != all_commits)
        or bisection.found != bisection.steps
    )
    return document, is_open


# ---- which cell ----------------------------------------------------------------------------------


def _choose_cell(sessions: CommitSessions) -> tuple[str | None, int]:
    """Id of the cell to follow, and number of sessions that chose it.

    The only cell, else the one that changed most; None where none did.
    """
    end_versions = [sessions.version(0), sessions.version(len(sessions.history) - 1)]
    common = [
        cell for cell in end_versions[1].cells if cell.id in {c.id for c in end_versions[0].cells}
    ]
    if len(common) == 1:
        return common[0].id, 0
    sessions.reporter.say("Session of both ends, to choose the cell")
    measured = sessions.measured_versions(end_versions, explained=False)
    if measured.run is None:
        return None, 0
    findings = measured.run.findings
    changes = [(c, sessions.change(findings, c.new, c.old)) for c in measured.comparisons]
    differing = [pair for pair in changes if pair[1].differs]
    failed = [pair for pair in changes if pair[1].verdict is Verdict.NO_DATA]
    if failed and not differing:
        raise UsageError(
            f"{failed[0][0].variant} at {failed[0][0].problem} has no right result at both ends",
            remedy="Name a cell with --cell, whose commits without a right result are skipped.",
        )
    slower = [pair for pair in differing if pair[1].verdict is Verdict.SLOWER]
    candidates = slower or differing or [pair for pair in changes if pair[1].is_open]
    if not candidates:
        return None, 1
    most, _ = max(candidates, key=lambda pair: max(pair[1].ratio, _quotient(1.0, pair[1].ratio)))
    sessions.reporter.say(f"Most changed: {most.variant} at {most.problem}; --cell names another.")
    return measured.base_cells[most.old.id].id, 1


# ---- what a step is ------------------------------------------------------------------------------


def _account(sessions: CommitSessions, step: Step) -> StepAccount:
    """Cause, files and last session of a step."""
    places = (step.before, step.after)
    commits = (sessions.history[place] for place in places)
    last = sessions.last_record(*places)
    return StepAccount(
        cause=cause_of(*(str(sessions.program(place)) for place in places)),
        files=sessions.repository.changed_files(*commits),
        why=tuple(last.get("why", ())),
        page=last.get("page"),
    )


def _step_document(history: Sequence[Commit], step: Step, account: StepAccount) -> dict[str, Any]:
    return {
        "commit": history[step.after].hash,
        "parent": history[step.before].hash,
        "state": step.state.value,
        **_without_nan(asdict(step.change)),
        **asdict(account),
    }


# ---- sessions ------------------------------------------------------------------------------------


@dataclass(eq=False)
class CommitSessions:
    """Builds and measures commits by their places in a history; the journal keeps answers."""

    request: BisectRequest
    reporter: ProgressReporter
    repository: Repository
    history: tuple[Commit, ...]
    journal: AnswerJournal
    only: str | None
    measured_now: int = 0
    """Number of sessions that this process measured."""
    _versions: dict[int, Version] = field(default_factory=dict)

    def follow(self, cell: str) -> None:
        """Measure one cell alone from now on."""
        self.only = f"cell={cell}"
        self._versions.clear()

    def version(self, place: int) -> Version:
        """The experiment at a commit."""
        if place not in self._versions:
            request = self.request
            self._versions[place] = read_version(
                self.repository,
                self.history[place],
                request.spec,
                request.out,
                overrides=request.overrides,
                only=self.only,
            )
        return self._versions[place]

    def prepare(self, places: Sequence[int]) -> list[str | None]:
        """Program of each commit, None where it cannot be built; builds missing programs."""
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
        """Program of a prepared commit; None where it cannot be built."""
        name: str | None = self.journal.answer(self._question(place), list)[0]
        return name

    def last_record(self, before: int, after: int) -> dict[str, Any]:
        """Record of the last session of two commits alone; empty without such a session."""
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
        return str(build or self.journal.answer(("failed", self.history[place].hash), str))

    def measure(self, places: Sequence[int], attempt: int) -> Survey:
        """Survey of one session of commits; a session of an earlier process is not repeated."""
        question = ("survey", *(self.history[place].hash for place in places), attempt)
        record = self.journal.answer(question, partial(self._survey, places, attempt))
        return Survey(
            steps=tuple(_change(step) for step in record["steps"]),
            total_change=_change(record["whole"]),
            failed_places=tuple(places[number] for number in record["failed"]),
        )

    def _survey(self, places: Sequence[int], attempt: int) -> dict[str, Any]:
        """Record of one session for the journal."""
        names = ", ".join(self.history[place].short for place in places)
        self.reporter.say(f"Session of {len(places)} commits: {names}")
        versions = [self.version(place) for place in places]
        pair = len(places) == 2
        measured = self.measured_versions(versions, explained=pair, attempt=attempt)
        if measured.run is None:
            raise EnvironmentUnusable("The commits of a session have the same sources.")
        findings = measured.run.findings
        programs = findings.programs
        cells = {cell.variant.name: cell for cell in programs.plan.cells}
        cells_in_order = [cells.get(commit.short) for commit in measured.commits]
        failed = [
            number
            for number, cell in enumerate(cells_in_order)
            if cell is None or not programs.correct(cell)
        ]
        for number in failed:
            self._note_failure(places[number], findings, cells_in_order[number])
        if failed:
            none = asdict(CommitChange(Verdict.NO_DATA))
            return {"steps": [], "whole": _without_nan(none), "failed": failed}
        pairs = [*pairwise(cells_in_order), (cells_in_order[0], cells_in_order[-1])]
        changes = [self.change(findings, new, old) for old, new in pairs if old and new]
        return {
            "steps": [_without_nan(asdict(change)) for change in changes[:-1]],
            "whole": _without_nan(asdict(changes[-1])),
            "failed": [],
            "page": None if measured.run.page is None else str(measured.run.page),
            "why": _why_lines(findings) if pair and findings.report.details.profiles else [],
        }

    def _note_failure(self, place: int, findings: Findings, cell: Cell | None) -> None:
        """Record why a commit has no right result; raises EnvironmentUnusable without a reason."""
        if cell is None:
            reason = "its cell was not planned"
        else:
            status = findings.programs.status(cell)
            if status.outcome is Outcome.NOT_MEASURED:
                raise EnvironmentUnusable(
                    f"The session ended before {self.history[place].short} was measured.",
                    remedy="The same command goes on.",
                )
            reason = failure_of(findings, cell)
        self.journal.answer(("failed", self.history[place].hash), lambda: reason)
        self.reporter.say(skipped_line(self.history[place], reason))

    def measured_versions(
        self, versions: Sequence[Version], *, explained: bool, attempt: int = 0
    ) -> MeasuredRevisions:
        """Measured versions; twice the blocks where `attempt` is not the first."""
        if attempt:
            blocks = 2 * max(versions[-1].loaded.experiment.collect.blocks)
            versions = [_with_blocks(version, blocks) for version in versions]
        is_unseen = not explained
        flags = {
            "fresh": attempt > 0,
            "live": True,
            "no_explain": is_unseen,
            "no_report": is_unseen,
        }
        to_run = run_request(self.request, **flags)
        measured = measure_versions(to_run, self.repository, versions, self.reporter)
        self.measured_now += measured.run is not None
        return measured

    def change(self, findings: Findings, new: Cell, old: Cell) -> CommitChange:
        """Change of the metric from one cell to another."""
        if self.request.metric != DURATION:
            return self._metric_change(findings, new, old)
        pair = pair_verdict(findings, new, old)
        return CommitChange(pair.verdict or Verdict.NO_DATA, pair.ratio, pair.low, pair.high)

    def _metric_change(self, findings: Findings, new: Cell, old: Cell) -> CommitChange:
        """Change of medians beyond the margin; UNCLEAR if intervals meet, SLOWER if it is more."""
        names = [label.name for label in findings.numbers.metrics]
        if self.request.metric not in names:
            raise UsageError(
                f"--metric {self.request.metric}: not measured; there are {', '.join(names)}"
            )
        after, before = (findings.numbers.value(c, self.request.metric) for c in (new, old))
        if not (after.present and before.present):
            return CommitChange(Verdict.NO_DATA)
        ratio = _quotient(after.median, before.median)
        margin = self.version(0).loaded.experiment.margin_pct / 100
        intervals_meet = after.low <= before.high and after.high >= before.low
        verdict = Verdict.SLOWER if ratio > 1 else Verdict.FASTER
        if not abs(ratio - 1) > margin:
            verdict = Verdict.SAME
        elif intervals_meet:
            verdict = Verdict.UNCLEAR
        ends = _quotient(after.low, before.high), _quotient(after.high, before.low)
        return CommitChange(verdict, ratio, *ends)


def _quotient(value: float, other: float) -> float:
    """A ratio; 1 of two zeros, infinity of a number to 0, such as the first bytes that spill."""
    return value / other if other else math.inf if value else 1.0


def _with_blocks(version: Version, blocks: int) -> Version:
    """A version whose session has `blocks` blocks."""
    loaded = version.loaded
    collect = loaded.experiment.collect.model_copy(update={"blocks": (blocks,)})
    experiment = loaded.experiment.model_copy(update={"collect": collect})
    return replace(version, loaded=replace(loaded, experiment=experiment))


def _why_lines(findings: Findings) -> list[str]:
    """Sentences of the page's first answer on why the later of a pair takes as long as it does."""
    from profiler.render.words.cards import first_answer
    from profiler.render.words.sentences import spoken

    sentences = map(spoken, first_answer(findings))
    return [sentence for sentence in sentences if sentence.startswith("Why")]


def _change(record: dict[str, Any]) -> CommitChange:
    numbers = (record[name] for name in ("ratio", "low", "high"))
    return CommitChange(
        Verdict(record["verdict"]), *(math.nan if n is None else n for n in numbers)
    )


def _without_nan(record: dict[str, Any]) -> dict[str, Any]:
    """A record for JSON: None in place of NaN and infinities."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
