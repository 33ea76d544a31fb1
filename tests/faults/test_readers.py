"""Damaged files of every kind that is read: an error of ours with a message, or what is whole.

Each reader gets a fixed number of damaged versions, the same ones at each run; what was found with
more of them by hand is kept in FOUND.
"""

import gzip
import json
import random
import re
from pathlib import Path

import pytest
import torch_traces
from damage import (
    SEED,
    WHOLE_TEXTS,
    damaged_files,
    damaged_lines,
    damaged_texts,
    damaged_versions,
)
from run_folders import Workplace, measured

from profiler.commands.importing import ImportRequest, import_files
from profiler.commands.output import dump, report_document
from profiler.errors import ProfilerError
from profiler.findings.find import find
from profiler.importers.registry import read_files
from profiler.importers.timelines import timelines_to_draw
from profiler.parse.chrome_trace import read_traces
from profiler.parse.clock_file import CLOCK_COLUMNS, read_clocks
from profiler.parse.ncu_csv import LAUNCH_COLUMNS, read_ncu_csv
from profiler.parse.nsys import OPERATION_COLUMNS, read_nsys
from profiler.parse.timeline_files import TimelineFacts, read_timeline, write_timeline
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.planned import plan_of
from profiler.run_folder.recording import write_recording
from profiler.runner import protocol
from profiler.search.t1 import read_t1

BUDGET = 60
RECORDINGS = Path(__file__).parents[1] / "recordings"
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
EXPORT = RECORDINGS / "nsys-2025.3/three_iterations.sqlite"
LOG = b"""\
Benchmark all input configs for triton_red_fused_0, get:
XBLOCK: 1, num_warps: 16, num_stages: 1: 0.0142, nreg 32, nspill 0, #shared-mem 64
Best config for triton_red_fused_0: XBLOCK: 1, num_warps: 16: 0.0142, nreg 32, nspill 0, \
#shared-mem 64
COORDESC: XBLOCK: 2, num_warps: 3: 0.0150, nreg 40, nspill 0, #shared-mem 64
AUTOTUNE mm(4096x512, 512x4096)
  triton_mm_11 0.0912 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=32, EVEN_K=True, num_warps=8
  mm 0.0968 ms 94.2%
"""
BEST_CONFIG = json.dumps(
    {"XBLOCK": 1, "num_warps": 4, "num_stages": 1, "configs_hash": "ab", "time_taken_ms": 3}
).encode()
CLOCKS = ",".join(CLOCK_COLUMNS) + "\n" + "1.5,1980,2619,4,50,300\n" * 40


def survives(read, contents, path):
    """Write each content to the path and read it; gives what was read of those that were whole."""
    whole = []
    for content in contents:
        path.write_bytes(content)
        try:
            whole.append(read(path))
        except ProfilerError:
            continue
    return whole


# ---- output of tools -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["ncu_raw_nvtx_cells.csv", "ncu_raw_threepass_60.csv.gz", "ncu_details_basic.csv.gz"]
)
def test_csv_of_ncu(tmp_path, name):
    content = (RECORDINGS / "ncu-2025.3.1" / name).read_bytes()
    damaged = damaged_files if name.endswith(".gz") else damaged_texts
    tables = survives(read_ncu_csv, damaged(content, BUDGET), tmp_path / name)
    assert len(tables) > BUDGET / 3
    assert all(set(LAUNCH_COLUMNS) <= set(table.launches.columns) for table in tables)


def test_clocks(tmp_path):
    contents = damaged_files(gzip.compress(CLOCKS.encode()), BUDGET)
    for clocks in survives(read_clocks, contents, tmp_path / "clocks.csv.gz"):
        assert tuple(clocks.columns) == CLOCK_COLUMNS


def test_exports_of_nsys(tmp_path):
    content = EXPORT.read_bytes()
    contents = [*damaged_texts(content, BUDGET), *with_odd_letters(content, BUDGET)]
    timelines = survives(read_nsys, contents, tmp_path / "export.sqlite")
    assert len(timelines) > BUDGET / 3
    for timeline in timelines:
        assert tuple(timeline.operations.columns) == OPERATION_COLUMNS


def with_odd_letters(content, budget):
    """Bytes that are no UTF-8, or ends of text, inside the words of a file."""
    source = random.Random(SEED)  # noqa: S311
    letters = [match.start() for match in re.finditer(rb"[A-Za-z_]{5}", content)]
    for _ in range(budget):
        damaged = bytearray(content)
        for _ in range(source.choice((1, 3, 10))):
            damaged[source.choice(letters)] = source.choice((0xFF, 0x80, 0, 0xC3, 0xED, 0x7F))
        yield bytes(damaged)


def trace_of(path):
    """A small trace of torch.profiler; gives its bytes."""
    trace = torch_traces.TraceFile(path)
    trace.range(protocol.range_name("a..p", 0), 0, 900)
    for number in range(4):
        trace.launch(number * 100, number * 100 + 50)
    return trace.write().read_bytes()


def test_traces_of_torch(tmp_path):
    def read(path):
        return read_files([path])[0].document()

    path = tmp_path / "trace.json"
    assert len(survives(read, damaged_texts(trace_of(path), BUDGET), path)) > BUDGET / 4


@pytest.mark.parametrize("content", [LOG, BEST_CONFIG])
def test_logs_of_inductor(tmp_path, content):
    def read(path):
        return json.dumps(read_files([path])[0].document())

    assert survives(read, damaged_texts(content, BUDGET), tmp_path / "tuning.log")


@pytest.mark.parametrize("name", ["operations.csv.gz", "ranges.csv.gz", "timeline.json"])
def test_cleaned_files_of_a_timeline(tmp_path, name):
    write_timeline(tmp_path, read_nsys(EXPORT), TimelineFacts("nsys", "cuda", "visits", "1", "2"))
    content = (tmp_path / name).read_bytes()
    damaged = damaged_files if name.endswith(".gz") else damaged_texts
    assert survives(lambda path: read_timeline(path.parent), damaged(content, 30), tmp_path / name)


# ---- what users write ----------------------------------------------------------------------------


def plan_experiment(path):
    loaded = load_spec(path)
    return make_plan(loaded, space_of(loaded))


@pytest.mark.parametrize("name", ["async_copy", "fusion_grid", "mlp", "waves"])
def test_experiment_files(tmp_path, name):
    content = (EXPERIMENTS / f"{name}.yaml").read_bytes()
    survives(plan_experiment, damaged_versions(content, BUDGET // 2), tmp_path / "spec.yaml")


def test_files_that_are_no_experiment(tmp_path):
    assert survives(plan_experiment, WHOLE_TEXTS, tmp_path / "spec.yaml") == []


# ---- run folders ---------------------------------------------------------------------------------

SMALL = """\
name: sums
workload: ./workload.py
variants: {list: [plain, tree]}
problems: {list: [small]}
baseline: plain
collect: {COLLECT}
"""
UNDER_TIMER = "device: cpu, collectors: [timer], final_blocks: 0, blocks: 3, metrics: [duration_ns]"
UNDER_NCU = "blocks: 2, metrics: [duration_ns, registers]"


def document(run, loaded, plan):
    """What `report` writes of a run, as JSON text."""
    return dump(report_document(find(assemble(run, loaded, plan).report)))


@pytest.fixture
def timed(tmp_path):
    """A small run under the timer, with every fact that a journal can hold."""
    place = Workplace(tmp_path / "timed", SMALL.replace("COLLECT", UNDER_TIMER))
    journal = [{"event": "session_started", "torch": "2.13", "pid": 7}]
    for cell in place.cells:
        where = {"event": "finished", "cell": cell.id}
        journal.append({**where, "phase": "check", "max_abs_error": 0.1, "max_rel_error": 1e-3})
        tuned = [{"operation": "mm", "choice": "x", "config": {"a": 1}, "time_ns": 1.0}]
        journal.append({**where, "phase": "describe", "flops": 1e9, "bytes": 1e6, "tuned": tuned})
    for cell, block, arm in place.visits("timer"):
        journal += measured([(cell, block, arm)], durations_ns=[1000.0 + block])[1:]
    place.attempt("timer", journal=journal)
    return place


def test_journals(timed):
    (attempt,) = timed.run.attempts()
    content = attempt.journal.read_bytes()
    contents = [*damaged_lines(content, 24), *damaged_texts(content, 4), *FOUND_JOURNALS]
    texts = survives(
        lambda _: document(timed.run, timed.loaded, timed.plan), contents, attempt.journal
    )
    assert len(texts) == len(contents)
    assert not any("NaN" in text or "Infinity" in text for text in texts)


def test_recordings(tmp_path):
    """Any one file of a recording is damaged."""
    place = Workplace(tmp_path / "place", SMALL.replace("COLLECT", UNDER_NCU))
    place.measure_all()
    recording = open_run(write_recording(place.run, tmp_path / "recording.zip", [])).path

    def report(_):
        run = RunFolder(recording)
        record = run.record()
        loaded = load_spec(run.spec_file, overrides=record.overrides)
        return document(run, loaded, plan_of(run))

    for file in sorted(path for path in recording.rglob("*") if path.is_file()):
        content = file.read_bytes()
        damaged = damaged_files if file.suffix == ".gz" else damaged_texts
        survives(report, list(damaged(content, 4))[:6], file)
        file.write_bytes(content)
    assert report(None)


def t1_of(values, condition="a > 0"):
    """A T1 file of one parameter."""
    space = {
        "TuningParameters": [{"Name": "a", "Type": "int", "Values": values}],
        "Conditions": [{"Expression": condition, "Parameters": ["a"]}],
    }
    return json.dumps({"ConfigurationSpace": space}).encode()


# ---- what was found ------------------------------------------------------------------------------

TOO_DEEP = b'{"a":' * 100_000
MANY_DIGITS = b'{"num_warps": ' + b"9" * 5000 + b', "num_stages": 1, "configs_hash": "a"}'
WITH_MANY_BITS = b"""\
name: x
workload: ./workload.py
variants: {list: [a]}
problems: {list: [{params: {n: 0x%b}}]}
""" % (b"f" * 100_000)
FOUND = {
    "a digit that is none": (
        read_files,
        "a.log",
        LOG.replace(b"nreg 32", "nreg 3²".encode()),
    ),
    "a count of 5000 digits": (read_files, "a.log", LOG.replace(b"32", b"9" * 5000)),
    "a stream of more than 64 bits": (
        read_traces,
        "trace.json",
        b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1,'
        b' "name": "k", "args": {"stream": 18446744073709551616, "correlation": 1e300}}]}',
    ),
    "reasons of a clock beyond all bits": (
        lambda paths: read_clocks(*paths),
        "clocks.csv",
        CLOCKS.replace(",4,", ",1e300,", 1).encode(),
    ),
    "a hexadecimal of 100,000 digits": (
        lambda paths: plan_experiment(*paths),
        "spec.yaml",
        WITH_MANY_BITS,
    ),
    "values without end": (lambda paths: read_t1(*paths), "a.json", t1_of("range(10**30)")),
    "a value beyond all floats": (lambda paths: read_t1(*paths), "a.json", t1_of("[10**400]")),
    "a condition beyond all floats": (
        lambda paths: read_t1(*paths),
        "a.json",
        t1_of("[1, 2]", "a * 10**400 > 0.5"),
    ),
    "a number of 5000 digits in a best_config": (read_files, "a.best_config", MANY_DIGITS),
    "brackets without end in a best_config": (read_files, "a.best_config", TOO_DEEP),
    "brackets without end in a setting": (
        read_files,
        "a.log",
        b"AUTOTUNE mm(4x4)\n  triton_mm_1 0.1 ms 100.0% A=" + b"(" * 100_000 + b"\n",
    ),
    "names without end in a trace": (
        read_traces,
        "trace.json",
        b'{"schemaVersion": 1, "traceEvents": [' + b'"name": "' * 50_000,
    ),
    "stacks without end in a trace": (
        read_traces,
        "trace.json",
        b'{"schemaVersion": 1, "traceEvents": [' + b'"Call stack": "' * 50_000,
    ),
    "a time beyond all floats in a trace": (
        read_traces,
        "trace.json",
        b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1e999999999}]}',
    ),
}
FOUND_JOURNALS = (
    # An event of another version has no cell, or a block that is none.
    b'{"event":"paused","phase":"measure","time":1}\n',
    b'{"event":"failed","phase":"measure","time":1,"cell":"plain..small","outcome":"raised"}\n',
    b'{"event":"finished","phase":"describe","cell":"plain..small","tuned":[{"time_ns":1'
    + b"0" * 400
    + b"}]}\n",
)


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_before(tmp_path, name):
    read, file, content = FOUND[name]
    survives(lambda path: read([path]), [content], tmp_path / file)


def test_a_file_of_which_nothing_can_be_read(tmp_path, capsys):
    (tmp_path / "a.csv").symlink_to("/proc/self/mem")
    with pytest.raises(ProfilerError, match=r"a\.csv"):
        import_files(ImportRequest(files=[tmp_path / "a.csv"]))


def test_a_cleaned_timeline_of_brackets(tmp_path):
    write_timeline(tmp_path, read_nsys(EXPORT), TimelineFacts("nsys", "cuda", "visits", "1", "2"))
    survives(lambda path: read_timeline(path.parent), [TOO_DEEP], tmp_path / "timeline.json")


def test_bytes_that_are_no_utf_8_become_letters_of_a_page(tmp_path):
    path = tmp_path / "export.sqlite"
    for damaged in list(with_odd_letters(EXPORT.read_bytes(), 4)):
        path.write_bytes(damaged)
        try:
            imported, _ = read_files([path])
        except ProfilerError:
            continue
        assert timelines_to_draw(imported.timelines) is not None
        json.dumps(imported.document()).encode("utf-8")
