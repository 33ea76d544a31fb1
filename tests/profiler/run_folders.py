"""Run folders as a real run leaves them: journals of the protocol, rows in the format of ncu."""

import shlex
from dataclasses import asdict, replace
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from unittest.mock import patch

from profiler.metrics import passes
from profiler.metrics.queries import ncu_names
from profiler.model import Environment
from profiler.planning.plan import make_plan
from profiler.planning.space import load_space
from profiler.planning.spec import load_spec
from profiler.run_folder.folder import (
    CSV_FILE,
    JOURNAL_FILE,
    AttemptRecord,
    AttemptResult,
    RunRecord,
    finish_attempt,
)
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.outcomes import gather
from profiler.run_folder.runs import create_run
from profiler.runner import protocol
from profiler.sessions.cell_keys import cell_keys
from profiler.sessions.measuring.after_attempt import check_kernels

CREATED = "2026-03-04T05:06:07+00:00"
FAKE_NCU = Path(__file__).parents[1] / "fake_ncu/ncu"

SPEC = """\
name: sums
title: Which sum
workload: ./workload.py
variants: {list: [plain, tree, loop]}
problems: {list: [small, large]}
collect: {blocks: 2, metrics: [duration_ns, cycles, registers, l2_hit_pct], explain: false}
"""
COMMAND_SPEC = """\
name: program
workload: {command: "./sgemm {variant}"}
variants: {list: [v1, v2]}
collect: {blocks: 2, metrics: [duration_ns, cycles]}
"""
H200 = Environment(
    gpu="NVIDIA H200",
    gpu_uuid="gpu-0123456789ab",
    compute_capability="9.0",
    driver="580.1",
    ncu="2025.3.1",
    torch="2.13.0",
    python="3.11.9",
    cpu="Some CPU",
    clock_control="none",
)


def load_fake_ncu():
    """The module of the stand-in for ncu, which knows how its rows look."""
    loader = SourceFileLoader("fake_ncu_rows", str(FAKE_NCU))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


fake_ncu = load_fake_ncu()

VisitKey = tuple[str, int] | tuple[str, int, int]
"""Cell, block and arm; 0 where no arm is given."""


def whole(visit):
    """A visit with its arm."""
    cell, block, *arm = visit
    return cell, block, arm[0] if arm else 0


def ncu_csv(visits, metrics, *, capability="9.0", drop=(), without_values=(), kernels=1):
    """What ncu prints for these visits: messages, header, units and a row per kernel.

    `drop`: raw names that do not come back. `without_values`: visits whose kernel faulted.
    """
    rows = fake_ncu.Rows([m for m in ncu_names(tuple(metrics), capability) if m not in drop])
    made = []
    faulted = {whole(visit) for visit in without_values}
    for cell, block, arm in map(whole, visits):
        name = protocol.range_name(cell, block, arm)
        for number in range(kernels):
            kernel = f"kernel_{number}(float *, int)"
            row = rows.make(len(made), 7, cell, (block, arm), kernel, name)
            if (cell, block, arm) in faulted:
                row.update(dict.fromkeys(rows.wanted, "nan"))
            made.append(row)
    return f"==PROF== Connected to process 7 (python3)\n{rows.csv(made)}"


def external_csv(kernels, metrics):
    """What ncu prints for a program without ranges of ours, one row per launch."""
    rows = fake_ncu.Rows(ncu_names(tuple(metrics), "9.0"))
    return str(rows.csv([rows.make(n, 7, None, n, name, None) for n, name in enumerate(kernels)]))


def measured(visits, **facts):
    """Journal of a session in which all visits went well; `facts` go into their records."""
    records = [{"event": protocol.SESSION_STARTED}]
    for cell, block, arm in map(whole, visits):
        where = {"cell": cell, "block": block, "phase": protocol.MEASURE}
        where |= {"arm": arm} if arm else {}
        records.append({"event": protocol.STARTED, **where})
        records.append({"event": protocol.FINISHED, **where, **facts})
    return records


def failed(cell, outcome, cause="because", **more):
    """Record of a cell that the runner gave up."""
    where = {"cell": cell, "phase": protocol.CHECK}
    return {"event": protocol.FAILED, **where, "outcome": outcome, "cause": cause, **more}


class Workplace:
    """A spec in a folder of its own, its plan, and the run folder of its measurements."""

    def __init__(self, folder, spec=SPEC, environment=H200, *, begun=True):
        """Write the spec and plan it; the run folder too, unless it is not to be `begun`."""
        self.folder = folder
        self.environment = environment
        self.builds = ()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workload.py").write_text("import torch\n", encoding="utf-8")
        (folder / "spec.yaml").write_text(spec, encoding="utf-8")
        self.loaded = load_spec(folder / "spec.yaml")
        space = load_space(self.loaded.experiment.workload, self.loaded.base)
        self.space = replace(space, capability=environment.compute_capability)
        with patch.object(passes, "SESSION_S", 0.0):  # two sessions of counters, as of many cells
            self.plan = make_plan(self.loaded, self.space)
        if begun:
            self.run = create_run(folder / "reports", self.plan.experiment, CREATED)
            self.begin()

    def begin(self, builds=()):
        """Write what stands in a run folder before anything is measured."""
        self.builds = tuple(builds)
        self.keys = cell_keys(
            self.plan.cells,
            experiment=self.loaded.experiment,
            builds={build.variant: build for build in self.builds},
            environment=self.environment,
            base=self.loaded.base,
        )
        self.run.write_spec(self.loaded.text)
        self.run.write_plan(self.plan)
        self.run.write_builds(self.builds)
        self.record = RunRecord(
            self.plan.experiment, CREATED, self.plan.seed, self.environment, self.keys
        )
        self.run.write_record(self.record)

    @property
    def cells(self):
        return self.plan.cells

    def session(self, name):
        """Session of the plan by its name."""
        return next(session for session in self.plan.sessions if session.name == name)

    def visits(self, name):
        """Cell, block and arm of every visit of a session."""
        return [(visit.cell, visit.block, visit.arm) for visit in self.session(name).visits]

    def attempt(
        self,
        name="ncu-timing",
        *,
        visits=None,
        journal=None,
        csv=None,
        result=AttemptResult("finished", 1.0),  # noqa: B008 - frozen
        keys=None,
        visit=None,
    ):
        """Write one attempt; by default one in which every visit went well.

        `result` None: the profiler was killed while it ran.
        """
        session = self.session(name)
        chosen = self.visits(name) if visits is None else visits
        known = self.keys if keys is None else keys
        record = AttemptRecord(
            session.name,
            session.collector,
            session.kind.value,
            session.metrics,
            {cell: known[cell] for cell, *_ in chosen},
            None if visit is None else asdict(visit),
        )
        folder = self.run.new_attempt(record)
        self.run.write_command(folder, shlex.join(["ncu", "--log-file", str(folder / CSV_FILE)]))
        if visit is None:
            records = measured(chosen) if journal is None else journal
            with (folder / JOURNAL_FILE).open("w", encoding="utf-8") as stream:
                for number, each in enumerate(records):
                    protocol.append_record(stream, {"time": float(number), **each})
        if session.collector == "ncu":
            text = ncu_csv(chosen, session.metrics) if csv is None else csv
            (folder / CSV_FILE).write_text(text, encoding="utf-8")
        if result is not None:
            finish_attempt(folder, result)
            self.check_kernels(folder)
        return folder

    def check_kernels(self, folder):
        """Ask the space about the kernels of an attempt, as a session does when it has ended."""
        attempt = self.run.attempt(folder)
        if attempt.record.visit is None:
            loaded = AttemptReader().load(attempt, self.keys, self.environment.compute_capability)
            self.run.write_kernel_check(folder, check_kernels(loaded, self.plan, self.space))

    def measure_all(self):
        """One attempt per session, in which everything went well."""
        for session in self.plan.sessions:
            self.attempt(session.name)

    def load(self, keys=None):
        """Every attempt of the run, read with the keys of today."""
        today = self.keys if keys is None else keys
        capability = self.environment.compute_capability
        return [AttemptReader().load(attempt, today, capability) for attempt in self.run.attempts()]

    def results(self):
        """What the run folder says about every cell."""
        return gather(self.plan, self.builds, self.load(), self.environment)

    def with_environment(self, **changes):
        """This environment with some fields changed."""
        return replace(self.environment, **changes)
