"""Every reader of data from outside, with small files that it reads.

A reader makes its folder once; then its file is damaged, and it reads again, over and over. The
tests do that some times (test_readers.py), `benchmarks/faults` hundreds of thousands of times.
"""

import contextlib
import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import stamped
import torch_traces
from nsys_exports import PUSH_POP, ExportFile
from run_folders import Workplace, measured
from small_files import FORMATS

from profiler.commands.gallery import read_contents
from profiler.commands.importing import ImportRequest, import_files
from profiler.commands.output import dump, report_document
from profiler.commands.report import read_run
from profiler.findings.find import find
from profiler.parse import runner_journal
from profiler.parse.chrome_trace import read_traces
from profiler.parse.clock_file import CLOCK_COLUMNS, CLOCKS_FILE, read_clocks
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.parse.ncu_source import read_source_page
from profiler.parse.nsys import read_nsys
from profiler.parse.stamps import read_stamps
from profiler.parse.timeline_files import TimelineFacts, read_timeline, write_timeline
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.render.page import render_page
from profiler.run_folder.folder import RunFolder
from profiler.runner import protocol
from profiler.search.journal import read_search
from profiler.search.t1 import read_t1
from profiler.search.t4 import read_t4
from profiler.sessions.forecasts.session_costs import read_costs

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests/recordings"


@dataclass(frozen=True)
class Reader:
    """A way to read one file."""

    name: str
    make: Callable[[Path], Path]
    """Makes what is read in a folder; gives the file that is damaged."""
    read: Callable[[Path], Any]
    """Reads the file; raises ProfilerError where it refuses."""
    draw: Callable[[Path], Any] | None = None
    """Reads it and makes a page, which takes longer."""
    slowness: int = 1
    """One try where others have so many."""


# ---- files of other programs ---------------------------------------------------------------------


def imported(path):
    """What `import --json -` writes of a file."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        import_files(ImportRequest(files=[path], json_target="-"))
    return json.loads(printed.getvalue())


def imported_page(path):
    """The page of a file, and what the console says."""
    import_files(ImportRequest(files=[path], page=path.with_name("imported.html"), color="never"))


def file_of(name, content):
    """A file with this content."""

    def make(folder):
        (folder / name).write_bytes(content)
        return folder / name

    return make


def some_rows(content, rows, columns=60):
    """The first rows and columns of a CSV of ncu, whose other metrics are like these."""
    lines = (line for line in content.decode().splitlines() if line.startswith('"'))
    table = islice(csv.reader(lines), rows)
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(row[:columns] for row in table)
    return stream.getvalue().encode()


def recorded(path):
    """Content of a recorded file of a tool, unpacked."""
    content = (RECORDINGS / path).read_bytes()
    return gzip.decompress(content) if path.endswith(".gz") else content


def lines(content, number):
    """The first lines of a text."""
    return b"".join(content.splitlines(keepends=True)[:number])


RAW = some_rows(recorded("ncu-2025.3.1/ncu_raw_nvtx_cells.csv"), 6)
DETAILS = some_rows(recorded("ncu-2025.3.1/ncu_details_basic.csv.gz"), 24)
RULES = lines(recorded("ncu-2025.3.1/ncu_details_detailed_rules.csv.gz"), 60)
SOURCE = lines(recorded("ncu-source-2025.3.1/repeated_cuda_sass.csv.gz"), 30)
SASS = lines(recorded("ncu-source-2025.3.1/repeated_sass.csv.gz"), 30)
TEXT = b"""\
==PROF== Connected to process 17 (/x/app)
[17] app@127.0.0.1
  gemm(float *) (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         us        22.50
    SM Frequency                    Ghz         1.41
    ----------------------- ----------- ------------
    Section: Command line profiler metrics
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    dram__bytes_read.sum          Kbyte     1,234.50
    ----------------------- ----------- ------------
"""
LOG = b"""\
Benchmark all input configs for triton_red_fused_0, get:
XBLOCK: 1, num_warps: 16, num_stages: 1: 0.0142, nreg 32, nspill 0, #shared-mem 64
Best config for triton_red_fused_0: XBLOCK: 1, num_warps: 16: 0.0142, nreg 32, nspill 0, \
#shared-mem 64
COORDESC: XBLOCK: 2, num_warps: 3: 0.0150, nreg 40, nspill 0, #shared-mem 64
AUTOTUNE mm(4096x512, 512x4096)
  triton_mm_11 0.0912 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=32, EVEN_K=True, num_warps=8
  mm 0.0968 ms 94.2%
Autotuning kernel add with config BLOCK: 64, num_warps: 4, maxnreg: None
Triton autotuning for function add finished after 0.48s; best config selected: BLOCK: 64, \
num_warps: 4, maxnreg: None;
"""
BEST_CONFIG = json.dumps(
    {"XBLOCK": 1, "num_warps": 4, "num_stages": 1, "configs_hash": "ab", "time_taken_ms": 3}
).encode()


def make_trace(folder):
    """A small trace of torch.profiler."""
    trace = torch_traces.TraceFile(folder / "trace.json")
    trace.range(protocol.range_name("a..p", 0), 0, 900)
    for number in range(3):
        trace.launch(number * 100, number * 100 + 50)
    return trace.write()


def make_export(folder):
    """A small export of nsys."""
    export = ExportFile(folder / "export.sqlite")
    export.add("NVTX_EVENTS", start=0, end=9000, eventType=PUSH_POP, text="step 1")
    for number in range(1, 4):
        start = 1000 * number
        export.kernel(start, start + 700, number, f"gemm_{number % 2}")
    facts = {"start": 5000, "end": 5600, "bytes": 4096, "copyKind": 1, "correlationId": 9}
    export.add("CUPTI_ACTIVITY_KIND_MEMCPY", **facts)
    return export.path


def of_others(name, make, slowness=10):
    return Reader(name, make, imported, imported_page, slowness)


RECORDED_FORMATS = (
    *("raw page of ncu", "report of ncu", "details page of ncu", "text of ncu"),
    *("source page of ncu", "trace of torch"),
    *("log of inductor's kernels", "log of inductor's choices"),
)
"""Formats of the importers' own tests of which larger files are damaged below."""

OF_OTHERS = (
    of_others("raw page of ncu", file_of("raw.csv", RAW)),
    of_others("raw page of ncu, packed", file_of("raw.csv.gz", gzip.compress(RAW))),
    of_others("details page of ncu", file_of("details.csv", DETAILS)),
    of_others("details page with rules", file_of("rules.csv", RULES)),
    of_others("text of ncu", file_of("ncu.txt", TEXT)),
    of_others("source page, lines and instructions", file_of("source.csv", SOURCE)),
    of_others("source page, instructions", file_of("sass.csv", SASS)),
    of_others("trace of torch.profiler", make_trace),
    of_others("export of nsys", make_export),
    of_others("log of inductor", file_of("tuning.log", LOG), 1),
    of_others("best_config", file_of("a.best_config", BEST_CONFIG), 1),
    *(
        of_others(form.name, file_of(form.file, form.text(*form.records).encode()))
        for form in FORMATS
        if form.name not in RECORDED_FORMATS
    ),
    # What reads a file alone is quicker than all that is made of it.
    Reader("raw page of ncu, alone", file_of("raw.csv", RAW), read_ncu_csv),
    Reader("details page of ncu, alone", file_of("rules.csv", RULES), read_ncu_csv),
    Reader("source page, alone", file_of("source.csv", SOURCE), read_source_page),
    Reader("trace, alone", make_trace, lambda path: read_traces([path])),
    Reader("export of nsys, alone", make_export, read_nsys, slowness=3),
)

# ---- what users write, and spaces ----------------------------------------------------------------


def planned(path):
    """The plan of an experiment file."""
    loaded = load_spec(path)
    return make_plan(loaded, space_of(loaded))


def make_spec(folder):
    """An experiment file with most kinds of keys."""
    (folder / "workload.py").write_text("import torch\n")
    (folder / "spec.yaml").write_text(SPEC)
    return folder / "spec.yaml"


SPEC = """\
name: sums  # of rows
title: Which sum
description: |
  Two lines
  of text
workload: ./workload.py
variants:
  list: [plain, {name: tree, params: {how: tree, warps: 4}, tags: [deep]}]
  matrix: {tile: [16, 32], stages: [2, 3.5]}
  exclude: [{name: large, when: {tile: 32, stages: 2}, reason: too large}]
problems:
  matrix: {size: [1024, 0x1000], dtype: [float16, bf16]}
baseline: plain
collect:
  blocks: 6
  repeats: 2
  metrics: [duration_ns, registers, l2_hit_pct]
  time_limit_s: 30
page: {kind: grid}
"""
T1 = json.dumps(
    {
        "General": {"BenchmarkName": "tile"},
        "ConfigurationSpace": {
            "TuningParameters": [
                {"Name": "x", "Type": "int", "Values": "[16, 32] + list(range(64, 129, 64))"},
                {"Name": "y", "Type": "int", "Values": "[2**i for i in range(0, 4)]"},
                {"Name": "layout", "Type": "string", "Values": ["row", "column"]},
            ],
            "Conditions": [
                {"Expression": "32 <= x * y <= 256", "Parameters": ["x", "y"]},
                {"Expression": "layout == 'row' or y in [1, 2]", "Parameters": ["layout", "y"]},
            ],
        },
        "KernelSpecification": {},
    },
    indent=1,
).encode()
T4 = json.dumps(
    {
        "schema_version": "1.0.0",
        "metadata": {"timeunit": "milliseconds"},
        "results": [
            {
                "configuration": {"x": 16, "y": y, "layout": "row"},
                "times": {"compilation": 20.5, "runtimes": [1.5, 1.25, 1.75]},
                "invalidity": "correct" if y < 8 else "runtime",
                "correctness": 1,
                "measurements": [{"name": "time", "value": 1.5, "unit": "ms"}],
                "objectives": ["time"],
            }
            for y in (2, 4, 8)
        ],
    }
).encode()
GALLERY = b"""\
comparisons:
  then_and_now: {title: Then and now, runs: [transpose, softmax]}
not_made:
  later: {reason: no machine, commands: [profiler run later.yaml]}
"""


def results_of(path):
    return [(result, result.value_ms("mean"), result.value_ms()) for result in read_t4(path)]


OF_USERS = (
    Reader("experiment file", make_spec, planned, slowness=5),
    Reader("T1", file_of("space.json", T1), read_t1),
    Reader("T4", file_of("cache.json.gz", gzip.compress(T4)), results_of),
    Reader("gallery.yaml", file_of("gallery.yaml", GALLERY), read_contents, slowness=5),
)

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
CLOCKS = ",".join(CLOCK_COLUMNS) + "\n" + "1.5,1980,2619,4,50,300\n" * 40


def document(run):
    """What `report --json` writes of a run."""
    return dump(report_document(find(read_run(run))))


def run_around(path):
    """The run that a file is of."""
    return RunFolder(next(above for above in path.parents if (above / "spec.yaml").exists()))


def reported(path):
    return document(run_around(path))


def reported_page(path):
    return render_page(find(read_run(run_around(path))))


def timed(folder):
    """A small run under the timer, with every fact that a journal can hold."""
    place = Workplace(folder, SMALL.replace("COLLECT", UNDER_TIMER))
    journal = [{"event": "session_started", "torch": "2.13", "pid": 7}]
    for cell in place.cells:
        where = {"event": "finished", "cell": cell.id}
        journal.append({**where, "phase": "check", "max_abs_error": 0.1, "max_rel_error": 1e-3})
        tuned = [{"operation": "mm", "choice": "x", "config": {"a": 1}, "time_ns": 1.0}]
        journal.append({**where, "phase": "describe", "flops": 1e9, "bytes": 1e6, "tuned": tuned})
    for cell, block, arm in place.visits("timer"):
        journal += measured([(cell, block, arm)], durations_ns=[1000.0 + block])[1:]
    journal.append({"event": "session_finished"})
    place.attempt("timer", journal=[{"line": n, **record} for n, record in enumerate(journal)])
    return place


def make_timed(file):
    """A file of a run under the timer."""

    def make(folder):
        run = timed(folder / "place").run.path
        return next(run.rglob(file))

    return make


def make_under_ncu(file):
    """A file of a run under ncu, whose clocks were recorded."""

    def make(folder):
        place = Workplace(folder / "place", SMALL.replace("COLLECT", UNDER_NCU))
        place.measure_all()
        for attempt in place.run.attempts():
            (attempt.folder / f"{CLOCKS_FILE}.gz").write_bytes(gzip.compress(CLOCKS.encode()))
        return next(place.run.path.rglob(file))

    return make


def recorded_file(recording, file):
    """A file of a recording."""

    def make(folder):
        zipfile.ZipFile(recording).extractall(folder)
        return folder / file

    return make


def make_stamps(folder):
    """Stamps of two visits."""
    visits = [stamped.ping_pong(steps=2), stamped.ping_pong(steps=2, block=1)]
    path = folder / f"{protocol.STAMPS_FILE}.gz"
    path.write_bytes(gzip.compress("".join(f"{json.dumps(v)}\n" for v in visits).encode()))
    return path


def make_cleaned(file):
    """A cleaned file of a timeline."""

    def make(folder):
        facts = TimelineFacts("nsys", "cuda", "visits", "1", "2")
        write_timeline(folder, read_nsys(make_export(folder)), facts)
        return folder / file

    return make


SEARCH = [
    {
        "event": "terms",
        "key": "k",
        "strategy": "model",
        "seed": 1,
        "objective": "geomean",
        "baseline": "base",
        "problems": ["p"],
        "parameters": {"x": [1, 2]},
        "configurations": 2,
        "left_out": 0,
    },
    {"event": "worker_joined", "worker": "worker-1", "gpu": "H200", "gpu_uuid": "gpu-1"},
    {"event": "proposed", "variant": "x=1", "params": {"x": 1}, "is_random_draw": True},
    {"event": "evaluated", "variant": "x=1", "outcome": "measured", "log_ratios": {"p": [-0.5]}},
    {"event": "proposed", "variant": "x=2", "params": {"x": 2}},
    {"event": "evaluated", "variant": "x=2", "outcome": "crashed", "cause": "SIGSEGV"},
    {"event": "looked_again", "variant": "x=1", "log_ratios": {"p": [-0.4]}},
    {"event": "runner_ended", "cause": "SIGSEGV"},
    {"event": "finished", "reason": "space", "finalists": ["x=1"]},
]


def json_lines(records):
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def costs(path):
    return read_costs(runner_journal.read_journal(path), {"plain..small": "small"})


TIMED_FILES = ("journal.jsonl", "session.json", "result.json", "run.json", "plan.json", "spec.yaml")
UNDER_NCU_FILES = ("ncu.csv.gz", "kernels.json", "command.txt", "clocks.csv.gz", "build.json")
EXPLAINED = RECORDINGS / "explained.zip"
EXPLAINED_FILES = ("source.csv.gz", "sass.csv.gz", "rules.csv.gz", "session.json", "ncu.csv.gz")

OF_RUNS = (
    Reader("stamps", make_stamps, lambda path: read_stamps(path.parent)),
    *(
        Reader(f"{name} of a timeline", make_cleaned(name), lambda path: read_timeline(path.parent))
        for name in ("operations.csv.gz", "ranges.csv.gz", "timeline.json")
    ),
    Reader("clocks", file_of("clocks.csv.gz", gzip.compress(CLOCKS.encode())), read_clocks),
    Reader("journal of a search", file_of("journal.jsonl", json_lines(SEARCH)), read_search),
    Reader("journal, for its costs", make_timed("journal.jsonl"), costs),
    *(Reader(f"{n} of a run", make_timed(n), reported, reported_page, 100) for n in TIMED_FILES),
    *(
        Reader(f"{n} under ncu", make_under_ncu(n), reported, reported_page, 100)
        for n in UNDER_NCU_FILES
    ),
    *(
        Reader(
            f"{name} of an explained run",
            recorded_file(EXPLAINED, f"raw/ncu-explain.001/{name}"),
            lambda path: read_run(run_around(path)),
            reported_page,
            100,
        )
        for name in EXPLAINED_FILES
    ),
)
READERS = {reader.name: reader for reader in (*OF_OTHERS, *OF_USERS, *OF_RUNS)}
