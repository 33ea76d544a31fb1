"""Damaged files of every kind that is read: an error of ours with a message, or what is whole.

Each reader (readers.py) gets a fixed number of damaged versions, the same ones at each run; what
was found with more of them by hand (`benchmarks/faults/damaged_files.py`) is kept in FOUND.
"""

import gzip
import json
import random
import re
import sqlite3
from contextlib import closing

import pytest
from damage import SEED, WHOLE_TEXTS, damaged_lines, damaged_versions
from readers import (
    CLOCKS,
    LOG,
    READERS,
    RECORDINGS,
    SMALL,
    UNDER_NCU,
    document,
    imported,
    imported_page,
    make_export,
    planned,
    timed,
)
from run_folders import Workplace
from small_files import FORMATS
from tries import try_reader

from profiler.commands.importing import ImportRequest, import_files
from profiler.errors import ProfilerError
from profiler.importers.registry import read_files
from profiler.importers.timelines import timelines_to_draw
from profiler.parse.chrome_trace import read_traces
from profiler.parse.clock_file import read_clocks
from profiler.parse.nsys import read_nsys
from profiler.parse.timeline_files import TimelineFacts, read_timeline, write_timeline
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.recording import write_recording
from profiler.search.t1 import read_t1

BUDGET = 16
EXPORT = RECORDINGS / "nsys-2025.3/three_iterations.sqlite"


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_damage_is_a_message_or_costs_what_is_damaged(tmp_path, reader):
    tries = max(BUDGET // reader.slowness, 2)
    tally = try_reader(reader, tmp_path, tries, SEED, drawn=0)
    assert not tally.kinds, tally.faults
    assert tally.tries == tries


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


def with_odd_letters(content, budget):
    """Bytes that are no UTF-8, or ends of text, inside the words of a file."""
    source = random.Random(SEED)  # noqa: S311
    letters = [match.start() for match in re.finditer(rb"[A-Za-z_]{5}", content)]
    for _ in range(budget):
        damaged = bytearray(content)
        for _ in range(source.choice((1, 3, 10))):
            damaged[source.choice(letters)] = source.choice((0xFF, 0x80, 0, 0xC3, 0xED, 0x7F))
        yield bytes(damaged)


def test_files_that_are_no_experiment(tmp_path):
    assert survives(planned, WHOLE_TEXTS, tmp_path / "spec.yaml") == []


def test_journals(tmp_path):
    """No line of a journal stops a report, or is a number that JSON has not."""
    run = timed(tmp_path / "timed").run
    (attempt,) = run.attempts()
    contents = [*damaged_lines(attempt.journal.read_bytes(), 2), *FOUND_JOURNALS]
    texts = survives(lambda _: document(run), contents, attempt.journal)
    assert len(texts) == len(contents)
    assert not any("NaN" in text or "Infinity" in text for text in texts)


def test_recordings(tmp_path):
    """Any one file of a recording is damaged."""
    place = Workplace(tmp_path / "place", SMALL.replace("COLLECT", UNDER_NCU))
    place.measure_all()
    run = RunFolder(open_run(write_recording(place.run, tmp_path / "recording.zip", [])).path)
    for file in sorted(path for path in run.path.rglob("*") if path.is_file()):
        content = file.read_bytes()
        survives(lambda _: document(run), damaged_versions(content, 1), file)
        file.write_bytes(content)
    assert document(run)


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
OF_NSYS = next(form for form in FORMATS if form.name == "trace of nsys")
OF_SUMS = next(form for form in FORMATS if form.name == "sums of nsys in JSON")
FOUND = {
    **{
        f"a device of {digits} digits": (
            read_files,
            "trace.csv",
            OF_NSYS.text(*OF_NSYS.records).replace("(0)", f"({'9' * digits})").encode(),
        )
        for digits in (400, 5000)
    },
    **{
        f"tables without rows, after {number} lines": (
            read_files,
            "sums.json",
            start.encode() + b'[{"Time (ns)":\n' * 50_000 + b"[ \n" * 50_000 + b"\n" * 100_000,
        )
        for number, start in enumerate(("", OF_SUMS.text(*OF_SUMS.records)))
    },
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
        lambda paths: planned(*paths),
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


def test_a_fraction_where_a_whole_number_belongs_is_a_message(tmp_path):
    write_timeline(tmp_path, read_nsys(EXPORT), TimelineFacts("nsys", "cuda", "visits", "1", "2"))
    path = tmp_path / "operations.csv.gz"
    head, first, *rest = gzip.decompress(path.read_bytes()).decode().split("\n")
    assert (head[-6:], first[-1]) == (",bytes", ","), "a kernel copies none"
    path.write_bytes(gzip.compress("\n".join([head, f"{first}0.5", *rest]).encode()))
    with pytest.raises(ProfilerError, match=r"operations\.csv\.gz: damaged"):
        read_timeline(tmp_path)


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


@pytest.mark.parametrize(
    ("statement", "unread"),
    [
        ("UPDATE NVTX_EVENTS SET text = x'fffe'", {}),
        ("UPDATE NVTX_EVENTS SET text = 1e300", {}),
        ("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = NULL", {"operation whose time is none": 1}),
        ("UPDATE NVTX_EVENTS SET end = 9223372036854775807", {"range whose time is none": 1}),
    ],
)
def test_odd_cells_of_an_export_cost_their_row(tmp_path, statement, unread):
    path = make_export(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()
    (timeline,) = imported(path)["timelines"]
    assert timeline["not_read"] == unread
    imported_page(path)
