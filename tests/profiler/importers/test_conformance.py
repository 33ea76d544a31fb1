"""What every importer keeps to: nothing changes, vanishes or is added without a word.

A format gives a file of a few records, and one of which nothing can be made. What
is imported of it is compared as pairs of a name and a time; what is not read has to be counted.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from profiler.commands.importing import import_files
from profiler.commands.requests import ImportRequest
from profiler.errors import ProfilerError

sys.path.append(str(Path(__file__).parents[1] / "parse"))
from nsys_exports import ExportFile

TIME = "gpu__time_duration.sum"
HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
LAUNCH = ["17", "app", "127.0.0.1"]
DETAIL_HEAD = [*HEAD, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
KERNELS = ("gemm(float *)", "relu(float *)", "softmax(float *, int)")
NS = (1500, 22_500, 337_500)


@dataclass(frozen=True)
class Format:
    """Files of one format, as lists of lines."""

    name: str
    head: tuple[str, ...]
    records: tuple[tuple[str, ...], ...]
    bad: tuple[str, ...]
    """A record of which nothing can be made."""
    tail: tuple[str, ...] = ()
    between: str = "\n"
    foreign: tuple[str, ...] | None = None
    """A record of a kind that nobody knows; None where there are no kinds."""
    prefixed: bool = False
    """Whether other programs write their words before each line."""

    def text(self, *records: Sequence[str]) -> str:
        """A whole file with these records."""
        lines = [*self.head, *(self._body(records)), *self.tail]
        return "\n".join(lines) + "\n"

    def _body(self, records: Sequence[Sequence[str]]) -> list[str]:
        joined = self.between.join("\n".join(record) for record in records)
        return joined.split("\n") if joined else []


def quoted(cells: Sequence[str]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def raw_row(number: int, value: str) -> str:
    return quoted([str(number), *LAUNCH, KERNELS[number], "1", "7", value])


def details_row(number: int, value: str, metric: str = TIME, unit: str = "ns") -> str:
    cells = [str(number), *LAUNCH, KERNELS[number], "1", "7"]
    return quoted([*cells, "Command line profiler metrics", metric, unit, value])


def text_launch(number: int, value: str) -> tuple[str, ...]:
    return (
        f"  {KERNELS[number]} (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0",
        "    Section: GPU Speed Of Light Throughput",
        "    ----------------------- ----------- ------------",
        "    Metric Name             Metric Unit Metric Value",
        "    ----------------------- ----------- ------------",
        f"    Duration                         us {value:>12}",
        "    ----------------------- ----------- ------------",
    )


def event(number: int, **changes: Any) -> str:
    facts = {"correlation": number, "device": 0, "stream": 7, "context": 1}
    start = 1000 * number
    fields = {"ph": "X", "cat": "kernel", "name": KERNELS[number], "ts": start, "args": facts}
    return json.dumps({**fields, "dur": NS[number] / 1000, "pid": 0, "tid": 7, **changes})


def tried(number: int, time: str) -> tuple[str, ...]:
    shown = f"XBLOCK: {2**number}, num_warps: 4, num_ctas: 1, num_stages: 1"
    return (
        f"Benchmark all input configs for triton_{number}, get:",
        f"{shown}: {time}, nreg 32, nspill 0, #shared-mem 64",
        f"Best config for triton_{number}: {shown}: {time}, nreg 32, nspill 0, #shared-mem 64",
    )


def choices(number: int, time: str) -> tuple[str, ...]:
    return (
        f"AUTOTUNE mm_{number}(4x4, 4x4)",
        f"  triton_mm_{number} {time} ms 100.0% BLOCK_K={2**number}, num_warps=4",
    )


def in_ms(number: int) -> str:
    return f"{NS[number] / 1e6:.6f}"


def with_separators(number: int) -> str:
    return f"{NS[number]:,}"


EACH = range(len(KERNELS))
FORMATS = (
    Format(
        "raw page of ncu",
        (quoted([*HEAD, TIME]), quoted([*[""] * len(HEAD), "ns"])),
        tuple((raw_row(n, with_separators(n)),) for n in EACH),
        bad=('"1","17","app"',),
    ),
    Format(
        "details page of ncu",
        (quoted(DETAIL_HEAD),),
        tuple((details_row(n, with_separators(n)),) for n in EACH),
        bad=('"1","17","app"',),
        foreign=(details_row(0, "3", "a new metric", "furlong"),),
    ),
    Format(
        "text of ncu",
        ("==PROF== Connected to process 17 (/x/app)", "[17] app@127.0.0.1"),
        tuple(text_launch(n, f"{NS[n] / 1000:.2f}") for n in EACH),
        bad=(*text_launch(1, "1.00")[:1],),
    ),
    Format(
        "trace of torch",
        ('{"schemaVersion": 1, "traceEvents": [',),
        tuple((event(n),) for n in EACH),
        bad=(event(1, dur=-5.0),),
        tail=("]}",),
        between=",\n",
        foreign=(event(1, cat="quantum_kernel"),),
    ),
    Format(
        "trace without a header",
        ("[",),
        tuple((event(n),) for n in EACH),
        bad=(event(1, ts="soon"),),
        tail=("]",),
        between=",\n",
        foreign=(event(1, cat="quantum_kernel"),),
    ),
    Format(
        "log of inductor's kernels",
        (),
        tuple(tried(n, in_ms(n)) for n in EACH),
        bad=("XBLOCK: 1, num_warps: many: soon, nreg 32",),
        prefixed=True,
    ),
    Format(
        "log of inductor's choices",
        (),
        tuple(choices(n, in_ms(n)) for n in EACH),
        bad=("  triton_mm_9 soon ms 100.0%",),
        prefixed=True,
    ),
)
WITH_RECORDS = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
Facts = Counter[tuple[str, float | None]]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[Facts, str]]:
    """What is imported of a file, as names with times, and all that is said of the rest."""

    def imported(content: str | bytes, name: str = "given.txt") -> tuple[Facts, str]:
        path, target = tmp_path / name, tmp_path / "out.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        import_files(ImportRequest(files=[path], json_target=str(target)))
        document = json.loads(target.read_text())
        rest = {key: document[key] for key in ("warnings",) if document.get(key)}
        rest |= {"not read": [t["not_read"] for t in document.get("timelines", ())]}
        return Counter(_facts(document)), json.dumps(rest)

    return imported


def _facts(document: dict[str, Any]) -> list[tuple[str, float | None]]:
    facts = [
        (launch["kernel"], launch["metrics"]["duration_ns"])
        for launch in document.get("launches", ())
    ]
    facts += [
        (f"{tried['operation']} {tried['choice']} {tried['config']}", tried["time_ns"])
        for tried in document.get("configurations", ())
    ]
    for timeline in document.get("timelines", ()):
        for kind in ("kernels", "other_operations"):
            for row in timeline[kind]:
                times = [row["min_ns"], row["max_ns"], row["med_ns"]][: row["instances"]]
                facts += [(row["name"], time) for time in times]
    return facts


@WITH_RECORDS
def test_all_is_read_of_what_is_whole(read, form):
    facts, _ = read(form.text(*form.records))
    assert sorted(time for _, time in facts) == list(NS)


@WITH_RECORDS
@pytest.mark.parametrize("bytes_per_letter", [1, 2])
def test_of_a_file_that_was_cut_anywhere_what_is_there_is_right(read, form, bytes_per_letter):
    text = form.text(*form.records)
    whole, _ = read(text)
    content = text.encode() if bytes_per_letter == 1 else text.encode("utf-16")
    for end in range(0, len(content), max(1, len(content) // 25)):
        try:
            facts, _ = read(content[:end])
        except ProfilerError:
            continue
        # Settings of a line that was cut may be gone: nothing tells it from one without them.
        known = {(name.partition(" {")[0], time) for name, time in facts if time is not None}
        assert known <= {(name.partition(" {")[0], time) for name, time in whole}, content[:end]


@WITH_RECORDS
@pytest.mark.parametrize("place", [0, 1, 3])
def test_one_bad_record_costs_itself(read, form, place):
    whole, before = read(form.text(*form.records))
    records = [*form.records[:place], form.bad, *form.records[place:]]
    facts, said = read(form.text(*records))
    assert Counter({fact: n for fact, n in facts.items() if fact[1] is not None}) == whole
    if "log" not in form.name and "text" not in form.name:  # those are words of many programs
        assert said != before


@WITH_RECORDS
def test_records_that_stand_twice_change_no_time(read, form):
    whole, _ = read(form.text(*form.records))
    facts, _ = read(form.text(*form.records, form.records[1]))
    assert set(facts) == set(whole)


@WITH_RECORDS
def test_the_order_of_records_says_nothing(read, form):
    assert read(form.text(*reversed(form.records)))[0] == read(form.text(*form.records))[0]


@pytest.mark.parametrize("form", [f for f in FORMATS if f.foreign], ids=lambda form: form.name)
def test_a_kind_that_nobody_knows_is_named(read, form):
    whole, _ = read(form.text(*form.records))
    facts, said = read(form.text(*form.records, form.foreign))
    assert facts == whole
    assert "quantum_kernel" in said or "details" in form.name


@WITH_RECORDS
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_other_encodings_say_the_same_or_are_refused(read, form, encoding):
    text = form.text(*form.records)
    try:
        facts, _ = read(text.encode(encoding))
    except ProfilerError:
        return
    assert facts == read(text)[0]


@WITH_RECORDS
def test_ends_of_lines_of_windows_say_the_same(read, form):
    text = form.text(*form.records)
    assert read(text.replace("\n", "\r\n"))[0] == read(text)[0]


@WITH_RECORDS
@pytest.mark.parametrize(
    "content", [b"", b"\n\n\n", b"\0" * 64, b" ", b"\xff\xfe", b"\xef\xbb\xbf"]
)
def test_what_holds_nothing_is_refused(read, form, content):
    with pytest.raises(ProfilerError):
        read(content)


@WITH_RECORDS
def test_many_records_are_all_there(read, form):
    facts, _ = read(form.text(*form.records * 200))
    assert set(facts) == set(read(form.text(*form.records))[0])


PREFIXES = (
    "[rank0]:",
    "[rank0]:V0909 02:58:42.751000 4189 torch/_inductor/x.py:837] [0/0] ",
    "2026-01-02T03:04:05,100 [WARN ] W-9000-model_1.0-stderr MODEL_LOG - ",
    "worker-3 | ",
    "(RayWorker pid=71, ip=10.0.0.1) ",
    "INFO 01-02 03:04:05 [model.py:12] ",
    "0: ",
    "\x1b[32mtrain\x1b[0m  ",
)


@pytest.mark.parametrize("form", [f for f in FORMATS if f.prefixed], ids=lambda form: form.name)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_words_of_other_programs_before_each_line_change_nothing(read, form, prefix):
    text = form.text(*form.records)
    facts, _ = read("".join(f"{prefix}{line}\n" for line in text.splitlines()))
    assert facts == read(text)[0]


@pytest.mark.parametrize("form", [f for f in FORMATS if f.prefixed], ids=lambda form: form.name)
def test_lines_of_several_processes_may_be_mixed(read, form):
    first, second = (
        form.text(*records).splitlines() for records in (form.records[:1], form.records[1:])
    )
    mixed = [
        f"[rank{rank}]:{line}"
        for pair in zip_longest(first, second)
        for rank, line in enumerate(pair)
        if line is not None
    ]
    assert read("\n".join(mixed) + "\n")[0] == read(form.text(*form.records))[0]


@pytest.mark.parametrize("thousands", [".", " ", "\u00a0", "\u202f", "'", "\u2019", ""])
def test_numbers_of_other_locales_are_the_same(read, thousands):
    numbers = (1234567.25, 891.5, 12345678.125)
    rows = []
    for number, value in enumerate(numbers):
        whole, _, part = f"{value:,}".partition(".")
        rows.append((raw_row(number, f"{whole.replace(',', thousands)},{part}"),))
    facts, _ = read(FORMATS[0].text(*rows))
    assert sorted(time for _, time in facts) == sorted(numbers)


NOT_READ = {
    "nvprof": (
        "==42== NVPROF is profiling process 42, command: ./a\n==42== Profiling result:\n",
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,ms,ms,ms,\n',
        '"Start","Duration","Grid X","Grid Y","Grid Z"\ns,us,,,\n0.1,1.5,1,1,1\n',
    ),
    "nsys stats": (
        "Time (%),Total Time (ns),Instances,Name\n100.0,8000,1,k\n",
        "Time(%),Total Time (ns),Instances,Name\n100.0,8000,1,k\n",
        "Start (ns),Duration (ns),CorrId,GrdX,Name\n1,8000,1,64,k\n",
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Total Time (ns)\n",
        "Processing [a.sqlite] with [/x/cuda_api_sum.py]...\n",
    ),
    "rocprof": (
        '"Index","KernelName","gpu-id","DurationNs"\n0,"k",4,1\n',
        '"Kind","Agent_Id","Queue_Id","Kernel_Name"\n"KERNEL_DISPATCH","Agent 4",1,"k"\n',
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"k",1,8000,8000,100.0\n',
    ),
}


@pytest.mark.parametrize(
    ("tool", "content"), [(tool, text) for tool, texts in NOT_READ.items() for text in texts]
)
def test_files_that_are_known_and_not_read_are_named(read, tool, content):
    with pytest.raises(ProfilerError, match=f"{tool}`?, which is not read") as refused:
        read(content)
    assert "ncu --import" not in str(refused.value)


@pytest.mark.parametrize(
    ("category", "what"),
    [
        ("kernel", 3), ("Kernel", 3), ("gpu_memcpy", 3), ("Memcpy", 3), ("Memset", 3),
        ("mtia_ccp_events", 0), ("Ascend Hardware", 0), ("hpu_kernel", 0), ("XpuKernel", 0),
    ],
)  # fmt: skip
def test_events_of_any_accelerator_are_read_or_counted(read, tmp_path, category, what):
    form = next(form for form in FORMATS if form.name == "trace of torch")
    step = event(0, cat="UserAnnotation", name="step", ts=0, dur=99_999.0)
    facts, said = read(form.text(*((event(n, cat=category),) for n in EACH), (step,)))
    assert sum(facts.values()) == what
    assert ("3" in said) == (what == 0)
    (timeline,) = json.loads((tmp_path / "out.json").read_text())["timelines"]
    (tree,) = timeline["ranges"]
    assert tree["name"] == "step"
    if what == 0:  # missing is missing, and no 0
        assert [tree[key] for key in ("operations", "gpu_ns", "idle_ns")] == [None] * 3


# ---- exports of nsys: tables, and no lines -------------------------------------------------------


def export(folder: Path, rows: Sequence[tuple[int, int, str]]) -> ExportFile:
    """An export with kernels (start, end, name)."""
    made = ExportFile(folder / "a.sqlite")
    for number, (start, end, name) in enumerate(rows, start=1):
        made.kernel(start, end, number, name)
    return made


ROWS = [
    (10_000_000 * n, 10_000_000 * n + time, name)
    for n, (name, time) in enumerate(zip(KERNELS, NS, strict=True), 1)
]
COPIES = [(0, 10, 1), (20, 50, 99), (60, 70, 98), (80, 90, 99)]


def test_copies_of_kinds_that_nobody_knows_stay_apart_and_are_counted(read, tmp_path):
    made = export(tmp_path, ROWS)
    for number, (start, end, kind) in enumerate(COPIES, start=50):
        facts = {"start": start, "end": end, "copyKind": kind, "correlationId": number}
        made.add("CUPTI_ACTIVITY_KIND_MEMCPY", **facts)
    facts, _ = read(made.path.read_bytes(), "a.sqlite")
    copies = [name for name, _ in facts.elements() if "memcpy" in name]
    assert sorted(copies.count(name) for name in set(copies)) == [1, 1, 2]
    assert all("of kind 9" in name or "Host-to-Device" in name for name in copies)


def test_an_export_that_was_cut_is_refused_or_right(read, tmp_path):
    content = export(tmp_path, ROWS).path.read_bytes()
    whole, _ = read(content, "a.sqlite")
    assert sorted(time for _, time in whole) == list(NS)
    for end in range(0, len(content), len(content) // 40):
        try:
            facts, _ = read(content[:end], "a.sqlite")
        except ProfilerError:
            continue
        assert facts <= whole


def test_an_operation_of_an_export_that_ends_before_it_begins_costs_itself(read, tmp_path):
    (tmp_path / "odd").mkdir()
    whole, _ = read(export(tmp_path, ROWS).path.read_bytes(), "a.sqlite")
    odd = export(tmp_path / "odd", [*ROWS, (9000, 8000, "odd")])
    facts, said = read(odd.path.read_bytes(), "a.sqlite")
    assert facts == whole
    assert '"operation that ends before it begins": 1' in said
