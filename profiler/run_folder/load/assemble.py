"""Assembles a report from a run folder, for live runs, replayed recordings and `report` alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.judge import Rules
from profiler.analyse.metric_values import (
    add_build_facts,
    add_derived,
    add_experiment_metrics,
    add_status_facts,
)
from profiler.analyse.range_counters import range_counters
from profiler.analyse.safe_frames import safe_frames
from profiler.analyse.samples import has_metrics, with_aliases
from profiler.analyse.summary import summarise
from profiler.collect import cupti, ncu
from profiler.collect.registry import primary_timer, timer_of
from profiler.errors import ParseError, UsageError
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import BuildResult, CellStatus, Environment, Plan, SessionKind
from profiler.notices import Notice, NoticeKind
from profiler.parse.stamps import KernelStamps
from profiler.planning.readiness import cpu_notice, unchecked_notice
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, Attempt, RunFolder, RunRecord
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.details import shared_timelines
from profiler.run_folder.load.loaded import Loaded, measured_roofs, roof_faults
from profiler.run_folder.load.outcomes import Results, gather, latest_profiles, with_attributes
from profiler.run_folder.load.report import (
    Details,
    ExecutionRecord,
    ExperimentText,
    Measurements,
    PageSettings,
    Report,
)
from profiler.run_folder.redact import Redaction, without_private
from profiler.run_folder.seconds import session_seconds
from profiler.search.journal import SearchRecord, read_search

T = TypeVar("T")


def assemble(
    run: RunFolder,
    loaded: LoadedSpec,
    plan: Plan,
    *,
    replay: bool = False,
    reader: AttemptReader | None = None,
) -> Report:
    """Report of the cells of a plan, from a run folder.

    `replay`: the folder is a recording, made on whatever machine. The keys that count are those of
    the folder itself: they leave out what was measured before a kernel was edited. `reader`: has
    read attempts of the run before.
    """
    record, listing = run.record(), run.list_attempts()
    attempts = _read(listing.attempts, record, AttemptReader() if reader is None else reader)
    redaction = Redaction.of_run(run.path)
    builds = tuple(public_build(build, redaction) for build in run.builds())
    results = gather(plan, builds, attempts, record.environment, recorded=replay)
    results = replace(results, statuses=public_statuses(results.statuses, redaction))
    environment = with_attributes(record.environment, results.attributes)
    results = _with_other_metrics(results, builds, loaded, environment)
    replayed = _replay_info(record, plan) if replay else None
    search, search_notices = search_of(run, redaction)
    report = Report(
        experiment=_experiment_text(run, record, loaded),
        plan=replace(plan, cells=results.cells),
        statuses=results.statuses,
        builds=builds,
        environment=environment,
        execution=ExecutionRecord(
            created=record.created,
            commands={
                session: without_private(command, redaction.folders)
                for session, command in _commands(listing.attempts).items()
            },
            stages=record.stages,
            seconds=session_seconds(run.seconds()),
            replay=replayed,
        ),
        measured=_measurements(plan, results, attempts, environment, redaction),
        notices=(
            *(() if replayed is None else (Notice(NoticeKind.REPLAYED, replayed),)),
            *_other_timer(plan, results.samples),
            *([unchecked] if (unchecked := unchecked_notice(loaded.experiment)) else ()),
            *([on_cpu] if (on_cpu := cpu_notice(loaded.experiment, environment)) else ()),
            *search_notices,
            *(Notice(NoticeKind.ATTEMPT_LINKED, {"attempt": name}) for name in listing.linked),
            *(Notice(NoticeKind.ATTEMPT_DAMAGED, {"attempt": name}) for name in listing.damaged),
            *(public_notice(notice, redaction) for notice in results.notices),
        ),
        settings=_page_settings(loaded),
        rules=Rules(len(plan.looks) or 1, loaded.experiment.margin_pct / 100),
        details=Details(
            timelines=_timelines(results),
            in_kernel=_details_of_correct(_stamps(attempts), results.statuses),
            profiles=_details_of_correct(latest_profiles(attempts), results.statuses),
        ),
        search=search,
    )
    return safe_frames(report)


def _read(attempts: Sequence[Attempt], record: RunRecord, reader: AttemptReader) -> list[Loaded]:
    """Results of attempts, of the cells that count by the keys of their run."""
    capability = record.environment.compute_capability
    reader.read_ahead(attempts, capability)
    return [
        reader.load(attempt, record.keys, capability, record.timelines, record.opened)
        for attempt in attempts
    ]


def _with_other_metrics(
    results: Results,
    builds: Sequence[BuildResult],
    loaded: LoadedSpec,
    environment: Environment,
) -> Results:
    """Results with the metrics that no session measures, and statuses that name those missing."""
    unmeasured = _unmeasured_metrics(loaded)
    samples = with_aliases(results.samples, results.statuses)
    samples = add_derived(samples, results.statuses, environment)
    samples = add_build_facts(
        samples, _build_of(results, builds), _metrics_of_source("ptxas", unmeasured)
    )
    samples = add_status_facts(samples, results.statuses, _metrics_of_source("runner", unmeasured))
    own_metrics = loaded.experiment.collect.own_metrics
    samples = add_experiment_metrics(samples, own_metrics, results.statuses, environment)
    expected_metrics = (*unmeasured, *(metric.name for metric in own_metrics))
    statuses = dict(results.statuses)
    for cell, row in has_metrics(samples, expected_metrics).iterrows():
        status = statuses.get(str(cell))
        if status is None:  # Measured before; not asked for today.
            continue
        missing_names = [
            name
            for name in expected_metrics
            if not row[name] and name not in status.missing_metrics
        ]
        statuses[status.cell] = replace(
            status, missing_metrics=(*status.missing_metrics, *missing_names)
        )
    return replace(results, samples=samples, statuses=statuses)


def _experiment_text(run: RunFolder, record: RunRecord, loaded: LoadedSpec) -> ExperimentText:
    experiment = loaded.experiment
    return ExperimentText(
        name=experiment.name,
        title=experiment.title or experiment.name,
        description=experiment.description,
        inputs=experiment.inputs_text,
        changes=experiment.changes,
        spec_text=loaded.text,
        # The spec in a run folder is a copy: what measures again is its original.
        spec_path=record.spec_path if loaded.base == run.path else loaded.shown_path,
    )


def _measurements(
    plan: Plan,
    results: Results,
    attempts: Sequence[Loaded],
    environment: Environment,
    redaction: Redaction,
) -> Measurements:
    ranked = {cell for cell, status in results.statuses.items() if status.outcome.correct}
    return Measurements(
        samples=results.samples,
        summary=summarise(
            results.samples, cells=results.cells, baseline=plan.baseline, ranked=ranked
        ),
        range_counters=range_counters(
            with_aliases(results.ranges, results.statuses),
            environment,
            [cell.id for cell in results.cells],
        ),
        practical_roofs=measured_roofs(attempts),
        practical_roof_faults={
            roof: redaction.redacted(cause) for roof, cause in roof_faults(attempts).items()
        },
    )


def _page_settings(loaded: LoadedSpec) -> PageSettings:
    page, collect = loaded.experiment.page, loaded.experiment.collect
    return PageSettings(
        kind=page.kind,
        metrics=collect.shown_metrics,
        own_metrics=collect.own_metrics,
        parameters=page.parameters,
        axes=page.axes,
        split=page.split,
        weights=page.weights,
        step_ms=page.step_ms,
        step_note=page.step_note,
    )


def _other_timer(plan: Plan, samples: pd.DataFrame) -> Iterator[Notice]:
    """Notice that another timer is used because the plan's primary one measured nothing."""
    planned_timer = timer_of(plan)
    timed = samples.reindex(columns=["kind", "collector", "duration_ns"]).dropna()
    of_timing = timed.loc[timed["kind"] == SessionKind.TIMING.value, "collector"]
    measured = primary_timer(of_timing.unique())
    if planned_timer is not None and measured not in (None, planned_timer):
        yield Notice(NoticeKind.OTHER_TIMER, {"planned": planned_timer, "measured": str(measured)})


def _timelines(results: Results) -> Mapping[str, CellTimeline]:
    aliases = {cell: status.duplicate_of for cell, status in results.statuses.items()}
    return shared_timelines(
        results.timelines,
        {cell: original for cell, original in aliases.items() if original is not None},
    )


def _stamps(attempts: Sequence[Loaded]) -> Mapping[str, KernelStamps]:
    """Stamps by cell id, of the latest attempt of in-kernel sessions."""
    return {
        cell: stamps for attempt in attempts for cell, stamps in attempt.details.in_kernel.items()
    }


def _details_of_correct(
    latest: Mapping[str, T], statuses: Mapping[str, CellStatus]
) -> dict[str, T]:
    """Details of correct cells; an alias has the details of the cell measured for it."""
    return {
        cell: latest[status.duplicate_of or cell]
        for cell, status in statuses.items()
        if status.outcome.correct and (status.duplicate_of or cell) in latest
    }


def _unmeasured_metrics(loaded: LoadedSpec) -> tuple[str, ...]:
    """Metrics of the spec that no session measures: derived, of the build, counters of a timer."""
    collect = loaded.experiment.collect
    names = (name for name in collect.measured_metrics if name in CATALOGUE)
    counted = ("ncu",) if collect.reads_counters else ()
    return tuple(name for name in names if CATALOGUE[name].source not in counted)


def _metrics_of_source(source: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if CATALOGUE[name].source == source)


def _build_of(results: Results, builds: Sequence[BuildResult]) -> Mapping[str, BuildResult]:
    by_variant = {build.variant: build for build in builds}
    return {
        cell.id: by_variant[cell.variant.id]
        for cell in results.cells
        if cell.variant.id in by_variant
    }


def _replay_info(record: RunRecord, plan: Plan) -> dict[str, str]:
    """Origin of the numbers of a replayed recording, as `ExecutionRecord.replay`."""
    return {
        "gpu": record.environment.processor or "an unnamed machine",
        "when": record.created,
        "ncu": tool_words(record.environment, plan),
    }


def tool_words(environment: Environment, plan: Plan) -> str:
    """Tools of a run as the end of the sentence `measured with …`."""
    collectors = {session.collector for session in plan.sessions}
    by_cupti = cupti.KIND.name in collectors
    if by_cupti and environment.ncu:
        conjunction = "and" if ncu.KIND.name in collectors else "and explained with"
        return f"CUPTI {conjunction} ncu {environment.ncu}"
    if by_cupti:
        return "CUPTI and no ncu"
    if environment.ncu:
        return f"ncu {environment.ncu}"
    return f"nsys {environment.nsys} and no ncu" if environment.nsys else "the timer"


def _commands(attempts: Sequence[Attempt]) -> Mapping[str, str]:
    """Command line by session, of its first attempt; later ones differ in the folder only."""
    commands: dict[str, str] = {}
    for attempt in attempts:
        if attempt.record.session not in commands:
            commands[attempt.record.session] = attempt.command()
    return commands


# ---- what may be shown ---------------------------------------------------------------------------


def search_of(
    run: RunFolder, redaction: Redaction
) -> tuple[SearchRecord | None, tuple[Notice, ...]]:
    """The search of a run and notices on its file; None without a search."""
    path = run.path / SEARCH_JOURNAL_FILE
    packed = path.with_name(f"{path.name}.gz")
    if any(file.is_symlink() for file in (path.parent, path, packed)):
        return None, (Notice(NoticeKind.ATTEMPT_LINKED, {"attempt": SEARCH_JOURNAL_FILE}),)
    try:
        record = read_search(path)
    except (UsageError, ParseError):
        return None, (Notice(NoticeKind.SEARCH_DAMAGED, {"file": SEARCH_JOURNAL_FILE}),)
    if record is None:
        return None, ()
    values: dict[str, str | int | float] = {"file": SEARCH_JOURNAL_FILE, "count": record.left_out}
    line_notices = (Notice(NoticeKind.SEARCH_LINES_LOST, values),) if record.left_out else ()
    return _public_record(record, redaction), line_notices


def _public_record(record: SearchRecord, redaction: Redaction) -> SearchRecord:
    """The record without folders and names of this machine."""
    return replace(
        record,
        evaluations=tuple(
            replace(evaluated, cause=redaction.redacted(evaluated.cause))
            for evaluated in record.evaluations
        ),
        runner_ends=tuple(map(redaction.redacted, record.runner_ends)),
    )


def public_build(build: BuildResult, redaction: Redaction) -> BuildResult:
    """A build for sharing, without folders of this machine."""
    folders = redaction.folders
    return replace(
        build,
        library=None if build.library is None else without_private(build.library, folders),
        command=without_private(build.command, folders),
        error=redaction.redacted(build.error),
    )


def public_statuses(
    statuses: Mapping[str, CellStatus], redaction: Redaction
) -> dict[str, CellStatus]:
    """Statuses by cell id, for sharing."""
    return {
        cell: replace(status, cause=redaction.redacted(status.cause))
        for cell, status in statuses.items()
    }


def public_notice(notice: Notice, redaction: Redaction) -> Notice:
    """A notice for sharing."""
    values = {
        key: redaction.redacted(value) if isinstance(value, str) else value
        for key, value in notice.values.items()
    }
    return replace(notice, values=values)
