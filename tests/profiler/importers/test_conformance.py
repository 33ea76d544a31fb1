"""What every importer keeps to: nothing changes, vanishes or is added without a word.

A format gives a file of a few records, and one of which nothing can be made. What
is imported of it is compared as pairs of a name and a time; what is not read has to be counted.
"""

import csv
import io
import json
import re
import sys
from collections import Counter
from functools import reduce
from itertools import zip_longest
from operator import getitem
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler import cli
from profiler.commands.importing import import_files
from profiler.commands.output import dump
from profiler.commands.requests import ImportRequest
from profiler.errors import ProfilerError
from profiler.importers import nsys_stats_tables, registry
from profiler.importers.given_file import GivenFile, notices_document
from profiler.importers.registry import IMPORTERS, importers_of, read_files
from profiler.parse import inductor
from profiler.parse.bounded_files import decoded

sys.path.append(str(Path(__file__).parents[1] / "parse"))
from nsys_exports import ExportFile
from small_files import EACH, FORMATS, KERNELS, NS, choices, event, raw_row, tried

WITH_RECORDS = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
READ = {}
"""What was imported of a file's content and name."""


def fake_tool(path, does):
    """A stand-in for ncu or nsys."""
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def tools(tmp_path, monkeypatch):
    """Tools that print a report as it is, or export it as it is."""
    prints = 'case "$*" in *"page raw"*) cat "$2";; esac'
    monkeypatch.setenv("PROFILER_NCU", fake_tool(tmp_path / "ncu", prints))
    monkeypatch.setenv("PROFILER_NSYS", fake_tool(tmp_path / "nsys", 'cp "$6" "$5"'))


@pytest.fixture
def read(tmp_path):
    """What is imported of a file, as names with times, and all that is said of the rest.

    Of the same file it is the same: most tests hold another one against the whole, read once.
    """

    def imported(content, name="given.txt"):
        if (content, name) not in READ:
            READ[content, name] = read_anew(content, name)
        facts, rest = READ[content, name]
        return facts.copy(), rest

    def read_anew(content, name):
        path, target = tmp_path / name, tmp_path / "out.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        read, notices = read_files([path])
        target.write_text(dump(read.document()))
        document = json.loads(target.read_text())
        rest = {
            "warnings": [*document.get("warnings", ()), *notices_document(notices)],
            "not read": [timeline["not_read"] for timeline in document.get("timelines", ())],
        }
        return Counter(_facts(document)), json.dumps(rest)

    return imported


def rounded(time):
    return None if time is None else round(time, 6)


def _facts(document):
    facts = [
        (launch["kernel"], launch["metrics"]["duration_ns"])
        for launch in document.get("launches", ())
    ]
    facts += [
        (f"{kernel['kernel']} {line['text']}", line["samples_not_issued"])
        for kernel in document.get("kernels", ())
        for line in kernel["lines"]
    ]
    facts += [
        (f"{tried['operation']} {tried['choice']} {tried['config']}", rounded(tried["time_ns"]))
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
    facts, _ = read(form.text(*form.records), form.file)
    assert sorted(time for _, time in facts) == list(NS)


@WITH_RECORDS
def test_there_are_tables_and_a_page_of_it(tmp_path, form, capsys):
    file, page = tmp_path / form.file, tmp_path / "page.html"
    file.write_text(form.text(*form.records))
    import_files(ImportRequest(files=[file], page=page))
    names = " ".join(capsys.readouterr().out.split())
    assert "softmax" in names or "4" in names
    assert form.file in page.read_text()


def test_every_importer_is_tried_here():
    """An importer that is new has a format above, or is one that names files and reads none."""
    texts = [(form.file, form.text(*form.records)) for form in FORMATS]
    texts += [("given.txt", text) for texts in NOT_READ.values() for text in texts]
    texts += [(name, "") for name in EXPORTS] + [("given.txt", MESSAGE)]
    tried = set()
    for name, text in texts:
        file = GivenFile(Path(name))
        vars(file)["head"] = decoded(text) if isinstance(text, bytes) else text
        first, *others = importers_of(file)
        assert not [other.name for other in others if other.gives], text
        tried.add(first.name)
    assert tried == {importer.name for importer in IMPORTERS}


SEARCHED = {
    "CSV of ncu": registry._NCU_CSV,
    "messages of ncu": registry._NCU_MESSAGE,
    "a table of `nsys stats`": nsys_stats_tables._TITLE,
    "a summary of ncu": registry._NCU_SUMMARY,
    "output of nvprof": registry._NVPROF,
    "output of rocprof": registry._ROCPROF,
    "a result of a benchmark": registry._BENCHMARK,
    "output of a compiler": registry._COMPILER,
    "a profile of Triton's Proton": registry._PROTON,
    "a space to search in the format T1": registry._T1,
    "results in the format T4": registry._T4,
}
"""Patterns of formats, which are searched where a text has one of a format's words."""
LINES = [
    pattern
    for name, pattern in vars(inductor).items()
    if name
    in (
        *("_BENCHMARKED", "_TABLE", "_TABLE_ENDS", "_TRIED", "_CHOICE", "_SPACED_CHOICE"),
        *("_TRIED_BY_TRITON", "_TUNED_BY_TRITON", "_SELECTED"),
    )
]


@pytest.mark.parametrize("name", SEARCHED)
def test_no_word_that_a_format_is_looked_for_by_is_missing(name):
    importer = next(importer for importer in IMPORTERS if importer.name.startswith(name))

    @settings(max_examples=25)
    @given(st.from_regex(SEARCHED[name]))
    def is_found(text):
        assert importer.is_in_text(text)

    is_found()


@settings(max_examples=100)
@given(st.one_of(map(st.from_regex, LINES)))
def test_no_word_that_lines_of_autotuners_are_looked_for_by_is_missing(line):
    assert inductor._may_be_read(line)


@pytest.mark.parametrize(
    ("form", "encoding"),
    [*((form, "utf-8") for form in FORMATS), (FORMATS[0], "utf-16")],
    ids=lambda given: getattr(given, "name", given),
)
def test_of_a_file_that_was_cut_anywhere_what_is_there_is_right(read, form, encoding):
    """In the middle of a letter of two bytes, too, which no format sees."""
    text = form.text(*form.records)
    whole, _ = read(text, form.file)
    content = text.encode(encoding)
    for end in range(0, len(content), max(1, len(content) // 9)):
        try:
            facts, _ = read(content[:end], form.file)
        except ProfilerError:
            continue
        # Settings of a line that was cut may be gone: nothing tells it from one without them.
        known = {(name.partition(" {")[0], time) for name, time in facts if time is not None}
        assert known <= {(name.partition(" {")[0], time) for name, time in whole}, content[:end]


def places_of(document):
    """Keys and indices that lead to each value of a JSON document."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in pairs:
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *place) for place in places_of(value))


@pytest.mark.parametrize(
    "form", [form for form in FORMATS if form.is_json], ids=lambda form: form.name
)
@pytest.mark.parametrize("other", [[], "soon"])
def test_a_value_of_another_type_is_refused_or_costs_itself(read, form, other):
    """Wherever it stands: lists can be no keys, and texts no numbers."""
    text = form.text(*form.records[:1])
    for place in places_of(json.loads(text)):
        document = json.loads(text)
        parent = reduce(getitem, place[:-1], document)
        parent[place[-1]] = other
        try:
            facts, _ = read(json.dumps(document), form.file)
        except ProfilerError:
            continue
        assert {time for _, time in facts} <= {NS[0], None}, place


@WITH_RECORDS
def test_one_bad_record_costs_itself(read, form):
    whole, before = read(form.text(*form.records), form.file)
    for place in (0, 1, 3):
        records = [*form.records[:place], form.bad, *form.records[place:]]
        facts, said = read(form.text(*records), form.file)
        assert Counter({fact: n for fact, n in facts.items() if fact[1] is not None}) == whole
        if "log" not in form.name and "text" not in form.name:  # those are words of many programs
            assert said != before


@WITH_RECORDS
def test_a_time_below_zero_is_missing_and_said(read, form):
    """Unknown is missing: neither shown as it is, nor left out in silence."""
    first, _, last = form.records
    whole, before = read(form.text(*form.records), form.file)
    facts, said = read(form.text(first, form.below_zero, last), form.file)
    assert said != before
    known = Counter({fact: n for fact, n in facts.items() if fact[1] is not None})
    assert known == Counter({fact: n for fact, n in whole.items() if fact[1] != NS[1]})


EXPONENTS = {"1.5e-03": NS[0], "2.25E-2": NS[1], "3.375e-1": NS[2]}
"""Milliseconds as other programs write them, and the nanoseconds that they are."""


@pytest.mark.parametrize("make", [tried, choices], ids=["kernels", "choices"])
def test_times_of_a_log_with_an_exponent_are_read(read, make):
    records = [make(number, time) for number, time in enumerate(EXPONENTS)]
    facts, _ = read("\n".join(line for record in records for line in record) + "\n")
    assert sorted(time for _, time in facts) == list(EXPONENTS.values())


@pytest.mark.parametrize("spaced", [str.strip, lambda row: row.replace(" ", "  ")])
def test_choices_below_their_heading_are_read_however_they_are_spaced(read, spaced):
    heading, *rows = choices(0, "0.0015")
    log_lines = [heading, *rows, "SingleProcess AUTOTUNE takes 0.3 seconds"]
    later = "decode 12.5 ms 40% of the step"
    facts, _ = read("\n".join([heading, *map(spaced, rows), *log_lines[-1:], later]) + "\n")
    assert facts == read("\n".join(log_lines) + "\n")[0]


def test_a_time_of_a_log_that_is_none_is_counted(read):
    lines = [*choices(0, "0.0015"), *choices(1, "soon")[1:]]
    facts, said = read("\n".join(lines) + "\n")
    assert sorted(facts.values()) == [1, 1]
    assert "1 time that cannot be read" in said


@WITH_RECORDS
def test_the_order_of_records_says_nothing(read, form):
    assert (
        read(form.text(*reversed(form.records)), form.file)[0]
        == read(form.text(*form.records), form.file)[0]
    )


@pytest.mark.parametrize("form", [f for f in FORMATS if f.foreign], ids=lambda form: form.name)
def test_a_kind_that_nobody_knows_is_named(read, form):
    whole, _ = read(form.text(*form.records), form.file)
    facts, said = read(form.text(*form.records, form.foreign), form.file)
    assert Counter({fact: n for fact, n in facts.items() if fact[1] is not None}) == whole
    assert "quantum_kernel" in said or "details" in form.name


@WITH_RECORDS
def test_other_encodings_say_the_same_or_are_refused(read, form):
    text = form.text(*form.records)
    whole, _ = read(text, form.file)
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"):
        try:
            facts, _ = read(text.encode(encoding), form.file)
        except ProfilerError:
            continue
        assert facts == whole, encoding


@WITH_RECORDS
def test_ends_of_lines_of_windows_say_the_same(read, form):
    text = form.text(*form.records)
    assert read(text.replace("\n", "\r\n"), form.file)[0] == read(text, form.file)[0]


@pytest.mark.parametrize("name", sorted({form.file for form in FORMATS}))
@pytest.mark.parametrize(
    "content", [b"", b"\n\n\n", b"\0" * 64, b" ", b"\xff\xfe", b"\xef\xbb\xbf"]
)
def test_what_holds_nothing_is_refused(read, name, content):
    with pytest.raises(ProfilerError):
        read(content, name)


@WITH_RECORDS
def test_many_records_are_all_there(read, form):
    facts, _ = read(form.text(*form.records * 20), form.file)
    assert set(facts) == set(read(form.text(*form.records), form.file)[0])


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
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_colours_around_lines_change_nothing(read, form, end):
    text = form.text(*form.records)
    facts, _ = read("".join(f"\x1b[1;32m{line}\x1b[0m\x1b[K{end}" for line in text.splitlines()))
    assert facts == read(text)[0]


@pytest.mark.parametrize("prefix", ["# ", "    ", *PREFIXES])
@pytest.mark.parametrize("titles", [1, 0], ids=["titled", "untitled"])
def test_columns_of_nsys_are_read_behind_any_words(read, prefix, titles):
    form = next(form for form in FORMATS if form.name == "sums of nsys in columns")
    lines = form.text(*form.records).splitlines()[0 if titles else 1 :]
    facts, notice_text = read("".join(f"{prefix}{line}\n" for line in [*lines, ""]))
    assert facts == read(form.text(*form.records))[0]
    assert "cannot be read" not in notice_text


def test_a_row_that_is_wider_than_its_columns_is_counted(read):
    form = next(form for form in FORMATS if form.name == "sums of nsys in columns")
    (row,) = form.records[1]
    wide = row.replace("  ", "  123", 1)
    facts, notice_text = read(form.text(form.records[0], (f"1{row}",), (wide,)))
    assert facts == read(form.text(form.records[0]))[0]
    assert '"row that cannot be read": 2' in notice_text


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
    assert read("\n".join(mixed) + "\n")[0] == read(form.text(*form.records), form.file)[0]


@pytest.mark.parametrize("thousands", [".", " ", "\u00a0", "\u202f", "'", "\u2019", ""])
def test_numbers_of_other_locales_are_the_same(read, thousands):
    numbers = (1234567.25, 891.5, 12345678.125)
    rows = []
    for number, value in enumerate(numbers):
        whole, _, part = f"{value:,}".partition(".")
        rows.append((raw_row(number, f"{whole.replace(',', thousands)},{part}"),))
    facts, _ = read(FORMATS[0].text(*rows))
    assert sorted(time for _, time in facts) == pytest.approx([n / 1000 for n in sorted(numbers)])


MESSAGE = "==PROF== Connected to process 17\n==WARNING== No kernels were profiled.\n"
EXPORTS = ("a.sqlite", "a.nsys-rep")


def test_csv_and_text_of_ncu_in_one_file_are_both_read(read):
    raw, text = (
        next(form for form in FORMATS if form.name == n) for n in ("raw page of ncu", "text of ncu")
    )
    facts, _ = read(text.text(*text.records[:1]) + raw.text(*raw.records[1:]))
    assert sorted(time for _, time in facts) == list(NS)


def test_messages_of_ncu_without_a_table_are_said(read):
    with pytest.raises(ProfilerError, match="No kernels were profiled"):
        read(MESSAGE)


def test_two_recordings_in_one_file_stay_two(read):
    form = next(form for form in FORMATS if form.name == "sums of nsys")
    one, two = form.text(*form.records[:2]), form.text(*form.records[1:])
    facts, _ = read(one + "\n" + two)
    assert sorted(time for _, time in facts.elements()) == [NS[0], NS[1], NS[1], NS[2]]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_triton_tries_and_chooses_is_read_behind_any_words(read, tmp_path, prefix):
    config = "BLOCK: {}, num_warps: 4, maxnreg: None"
    lines = [
        *(f"Autotuning kernel add with config {config.format(n)}" for n in (64, 128)),
        "Triton autotuning for function add finished after 0.48s; best config selected: "
        f"{config.format(128)};",
    ]
    read("".join(f"{prefix}{line}\n" for line in lines))
    tried = json.loads((tmp_path / "out.json").read_text())["configurations"]
    assert [(each["operation"], each["config"]["BLOCK"], each["best"]) for each in tried] == [
        ("add", 64, False),
        ("add", 128, True),
    ]


NOT_READ = {
    "summary of ncu": (
        "  gemm(float *) (64, 1, 1)x(256, 1, 1), Device 0, CC 8.0, Invocations 10\n",
        '"Process ID","Kernel Name","Invocations","Metric Name","Minimum","Maximum"\n',
    ),
    "T1": ('{"General": {}, "ConfigurationSpace": {"TuningParameters": [{"Name": "x"}]}}\n',),
    "nvprof": (
        "==42== NVPROF is profiling process 42, command: ./a\n==42== Profiling result:\n",
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,ms,ms,ms,\n',
        '"Start","Duration","Grid X","Grid Y","Grid Z"\ns,us,,,\n0.1,1.5,1,1,1\n',
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n",
        "SQLite format 3\0" + "x" * 99 + "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL, StringTable",
    ),
    "rocprof": (
        '"Index","KernelName","gpu-id","DurationNs"\n0,"k",4,1\n',
        '"Kind","Agent_Id","Queue_Id","Kernel_Name"\n"KERNEL_DISPATCH","Agent 4",1,"k"\n',
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"k",1,8000,8000,100.0\n',
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp"\n',
        '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Counter_Name","Counter_Value"\n',
        "SQLite format 3\0" + "x" * 99 + "CREATE TABLE rocpd_kernel_dispatch_ab12",
    ),
    r"nsight-python\)": (
        '{"meta": {"argv": [], "version": {"nvbench": {"major": 0}}}, "benchmarks": []}',
        "Benchmark,Device,Device Name,Skipped,Samples,CPU Time (sec)\n",
        '{"context": {"library_build_type": "release"}, "benchmarks": []}',
        "name,iterations,real_time,cpu_time,time_unit\n",
        '{"machine_info": {}, "commit_info": {}, "benchmarks": []}',
        '{"results": [{"command": "./a", "mean": 1.5, "times": [1.5]}]}',
        "command,mean,stddev,median,user,system,min,max\n",
        "x_val;eager-latency;triton-latency\n(64, 64);0.012;0.010\n",
        "Annotation,n,AvgValue,StdDev,NumRuns,StableMeasurement,Kernel\n",
    ),
    "cuobjdump": (
        "ptxas info    : 0 bytes gmem\nptxas info    : Used 10 registers\n",
        "Resource usage:\n Common:\n  GLOBAL:0\n Function _Z3add:\n  REG:10 STACK:0\n",
        "\tcode for sm_90\n\t\tFunction : _Z3add\n\t.headerflags\t@EF_CUDA_SM90\n",
    ),
    "Proton": ('[{"children": [], "frame": {"name": "ROOT"}, "metrics": {"count": 0}}]',),
    "gzip": (
        *(b"PK\3\4\x14\0", b"BZh91AY&SY", b"\xfd7zXZ\0\0", b"7z\xbc\xaf\x27\x1c"),
        *(b"\x28\xb5\x2f\xfd\x04", b"trace.json".ljust(257, b"\0") + b"ustar\0"),
    ),
}


@pytest.mark.parametrize(
    ("tool", "content"), [(tool, text) for tool, texts in NOT_READ.items() for text in texts]
)
def test_files_that_are_known_and_not_read_are_named(read, tool, content):
    with pytest.raises(ProfilerError, match=f"{tool}`?, which is not read") as refused:
        read(content)
    assert "ncu --import" not in str(refused.value)
    assert refused.value.remedy
    commands = {command.name for command in cli.app.registered_commands}
    assert {*re.findall(r"`([^`]+)`", refused.value.remedy)} <= commands, "what is named exists"


@pytest.mark.parametrize(
    ("category", "what"),
    [
        ("kernel", 3), ("Kernel", 3), ("gpu_memcpy", 3), ("Memcpy", 3), ("Memset", 3),
        ("mtia_ccp_events", 3), ("mtia_insight", 0), ("Ascend Hardware", 0), ("hpu_kernel", 0),
        ("XpuKernel", 0),
    ],
)  # fmt: skip
def test_events_of_any_accelerator_are_read_or_counted(read, tmp_path, category, what):
    form = next(form for form in FORMATS if form.name == "trace of torch")
    step = event(0, cat="UserAnnotation", name="step", ts=0, dur=99_999.0)
    facts, said = read(form.text(*((event(n, cat=category),) for n in EACH), (step,)), form.file)
    assert sum(facts.values()) == what
    assert ("3" in said) == (what == 0)
    (timeline,) = json.loads((tmp_path / "out.json").read_text())["timelines"]
    (tree,) = timeline["ranges"]
    assert tree["name"] == "step"
    if what == 0:  # missing is missing, and no 0
        assert [tree[key] for key in ("operations", "gpu_ns", "idle_ns")] == [None] * 3


def test_an_event_in_two_parts_is_counted(read):
    form = next(form for form in FORMATS if form.name == "trace of torch")
    parts = [(event(1, cat="kernel", ph=phase),) for phase in "BE"]
    facts, said = read(form.text((event(2, cat="kernel"),), *parts), form.file)
    assert sum(facts.values()) == 1
    assert '"in two parts": 1' in said


@pytest.mark.parametrize("end", ["", ",", ",\n"])
def test_a_bare_list_of_events_needs_no_end(read, end):
    form = next(form for form in FORMATS if form.name == "trace without a header")
    text = form.text(*form.records)
    assert read(text.strip().removesuffix("]").strip() + end)[0] == read(text)[0]


@pytest.mark.parametrize("name", ["raw page of ncu", "details page of ncu"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_of_ncu_may_stand_in_any_order(read, name, delimiter):
    form = next(form for form in FORMATS if form.name == name)
    whole = form.text(*form.records)
    rows = list(csv.reader(io.StringIO(whole)))
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(row[::-1] for row in rows)
    assert read(written.getvalue())[0] == read(whole)[0]


IN_LINES = [
    form for form in FORMATS if form.file == "given.txt" and not form.text().startswith(("{", "["))
]


@pytest.mark.parametrize("form", IN_LINES, ids=lambda form: form.name)
def test_lines_of_a_log_may_be_values_of_json(read, form):
    whole = form.text(*form.records)
    lines = [json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in whole.splitlines()]
    assert read("\n".join(lines), form.file)[0] == read(whole, form.file)[0]


def call(number, category, name):
    return event(number, cat=category, name=name, pid=9, ts=1000 * number - 9)


@pytest.mark.parametrize(
    ("platform", "category", "launch"),
    [
        ("CUDA", "cuda_runtime", "cudaMemcpyAsync"),
        ("HIP", "cuda_runtime", "hipMemcpyAsync"),
        ("XPU", "xpu_runtime", "urEnqueueUSMMemcpy"),
    ],
)
def test_copies_of_any_platform_are_its_own(read, platform, category, launch):
    form = next(form for form in FORMATS if form.name == "trace of torch")
    copies = ("Memcpy HtoD (Host -> Device)", "CopyHostToDevice", "Memcpy M2D(Memory -> Device)")
    events = [(event(n, cat="gpu_memcpy", name=name),) for n, name in enumerate(copies)]
    facts, _ = read(form.text(*events, *((call(n, category, launch),) for n in EACH)))
    assert {name for name, _ in facts} == {
        f"[{platform} memcpy Host-to-Device]",
        f"[{platform} memcpy M2D(Memory -> Device)]",
    }


def test_an_operation_without_its_device_is_on_none_and_said(tmp_path):
    """Where nobody names a device all are on one; else who names none is no device of its own."""
    on_gpu = {"cat": "kernel", "dur": 40, "pid": 0, "tid": 7}
    kernels = [event(n, **on_gpu, ts=60 * n, args={"device": 0}) for n in (0, 1)]
    memset = event(2, **{**on_gpu, "cat": "gpu_memset"}, ts=10, args={"stream": 7})
    (tmp_path / "t.json").write_text("[" + ",\n".join([*kernels, memset]) + "]")
    document = read_files([tmp_path / "t.json"])[0].document()["timelines"][0]
    assert (document["devices"], document["busy_ns"]) == (1, 80_000)
    assert document["not_read"] == {"device of an operation": 1}


def test_ranks_merged_into_one_trace_do_not_launch_for_each_other(tmp_path):
    """Each counts its calls from 1: the step of the first had the kernels of all."""
    events = []
    for rank, pid in enumerate((100, 200)):
        of_rank = {"args": {"correlation": 1, "device": rank}}
        step = event(0, cat="user_annotation", name=f"step of {pid}", pid=pid, ts=0, dur=900)
        call = event(0, cat="cuda_runtime", name="cudaLaunchKernel", pid=pid, ts=1, **of_rank)
        events += [step, call, event(1, pid=rank, **of_rank)]
    (tmp_path / "t.json").write_text("[" + ",\n".join(events) + "]")
    document = read_files([tmp_path / "t.json"])[0].document()["timelines"][0]
    assert [row["operations"] for row in document["ranges"]] == [None, None]
    assert document["not_read"] == {"process of an operation": 2}
    assert document["devices"] == 2


def test_events_without_a_category_are_counted_by_their_process(read, tmp_path):
    """Ascend's tracer writes a bare list, times as texts, and a process for each kind."""
    names = {10: "Python", 30: "Ascend Hardware"}
    lines = [json.dumps({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
             for pid, name in names.items()]  # fmt: skip
    lines.append(
        event(1, cat="cpu_op", name="aten::mm", pid=10, ts="1707012345678901.5", dur="2.5")
    )
    lines += [event(n, pid=pid, cat=None) for n, pid in ((0, 30), (1, 30), (2, 40))]
    facts, said = read("[" + ",\n".join(lines) + "]")
    assert facts == Counter({("aten::mm", 2500): 1})
    assert '"of Ascend Hardware": 2' in said
    assert '"of no category (process 40)": 1' in said


def of_ascend(name, pid, start_us, task):
    """An event as Ascend's tracer writes it: no category, times as texts."""
    times = {"ts": f"{1707012345678000 + start_us:.2f}", "dur": 4.5}
    return json.dumps({"ph": "X", "name": name, "pid": pid, "tid": 7, **times, "args": task})


def test_tasks_and_calls_of_ascend_are_read_and_what_waits_is_counted(read, tmp_path):
    """The process of its calls is where they are shown; they are made by threads of Python."""
    range_of_python = {"ts": "1707012345678000.0", "dur": "50.0", "pid": 10, "tid": 7}
    stream = {"Physic Stream Id": 3}
    call, kernel = {"level": "node", "connection_id": 41}, {"Task Type": "AI_CORE"}
    copy = {"Task Type": "PCIE_DMA_SQE", "operation": "host to device", "size(B)": 4096}
    lines = [
        event(1, cat="user_annotation", name="step", **range_of_python),
        of_ascend("Node@launch", 20, 5, call),
        of_ascend("aclnnMm_MatMulV2", 30, 20, {**kernel, "connection_id": 41, **stream}),
        of_ascend("MEMCPY_ASYNC", 30, 40, {**copy, **stream}),
        of_ascend("EVENT_WAIT", 30, 45, {"Task Type": "EVENT_WAIT_SQE", **stream}),
        of_ascend("Add", 30, 46, stream),
    ]
    facts, said = read("[" + ",\n".join(lines) + "]")
    assert facts == Counter(
        {("aclnnMm_MatMulV2", 4500): 1, ("[ASCEND memcpy Host-to-Device]", 4500): 1}
    )
    assert '"of the category EVENT_WAIT_SQE of Ascend": 1' in said
    assert '"of no category (process 30)": 1' in said
    (timeline,) = json.loads((tmp_path / "out.json").read_text())["timelines"]
    assert [(tree["name"], tree["operations"]) for tree in timeline["ranges"]] == [("step", 1)]
    assert [row["avg_ns"] for row in timeline["launch_latency"]] == [15_000]


def test_ranges_have_unknown_operations_where_no_call_is_known(read, tmp_path):
    form = next(form for form in FORMATS if form.name == "trace of torch")
    step = event(0, cat="user_annotation", name="step", ts=0, dur=99_999.0)
    read(form.text((event(1, cat="kernel"),), (step,)), form.file)
    (timeline,) = json.loads((tmp_path / "out.json").read_text())["timelines"]
    (tree,) = timeline["ranges"]
    assert [tree[key] for key in ("operations", "gpu_ns", "idle_ns")] == [None] * 3


# ---- exports of nsys: tables, and no lines -------------------------------------------------------


def export(folder, rows):
    """An export with kernels (start, end, name)."""
    made = ExportFile(folder / "a.sqlite")
    for number, (start, end, name) in enumerate(rows, start=1):
        made.kernel(start, end, number, name)
    return made


@pytest.mark.parametrize("form", IN_LINES, ids=lambda form: form.name)
def test_what_cells_of_a_notebook_printed_is_read(read, form):
    whole = form.text(*form.records)
    output = {"output_type": "stream", "name": "stderr", "text": whole.splitlines(keepends=True)}
    cells = [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": [output]}]
    notebook = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1)
    assert read(notebook, "a.ipynb") == read(whole, "a.ipynb")


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


def test_events_of_an_export_that_are_not_read_are_counted(read, tmp_path):
    made = export(tmp_path, ROWS)
    for kind in (34, 34, 999, None):
        made.range(5, None, "note", eventType=kind)
    faults = '"CUDA_UM ""FAULTS"" EVENTS"'
    made.execute(f"CREATE TABLE {faults} (start INTEGER NOT NULL, address INTEGER)")
    made.execute(f"INSERT INTO {faults} VALUES (1, 2), (3, 4)")  # noqa: S608 - our own names
    facts, said = read(made.path.read_bytes(), "a.sqlite")
    assert sorted(time for _, time in facts) == list(NS)
    (not_read,) = json.loads(said)["not read"]
    assert sorted(not_read.values()) == [1, 1, 2, 2]
    assert {"event of NVTX of type 999", "event of NVTX without a type"} < not_read.keys()
    assert "FAULTS" in said


def test_an_export_of_copies_alone_is_one(read, tmp_path):
    made = ExportFile(tmp_path / "a.sqlite")
    made.execute("DROP TABLE META_DATA_EXPORT")
    for kind in (1, None, 99):
        made.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=0, end=7, copyKind=kind, correlationId=1)
    facts, _ = read(made.path.read_bytes(), "a.sqlite")
    assert sorted(facts) == [
        ("[CUDA memcpy Host-to-Device]", 7),
        ("[CUDA memcpy of kind 99]", 7),
        ("[CUDA memcpy of no kind]", 7),
    ]


IDENTIFIED = {
    "aten::mul": "aten::mul, seq = {}, op_id = {}",
    "request *": "request {:08x}-0a1b-2c3d-4e5f-00000000{:04x}",
    "at *": "at 0x7f{:04x}",
    "step_*": "step_{}",
}


@pytest.mark.parametrize("stays", IDENTIFIED)
@pytest.mark.parametrize("count", [3, 40])
def test_ranges_with_identifiers_are_one_row_and_each_has_its_own(read, tmp_path, stays, count):
    made = ExportFile(tmp_path / "a.sqlite")
    names = [IDENTIFIED[stays].format(number + 7, number + 9) for number in range(count)]
    for number, name in enumerate(names, start=1):
        start = 100_000 * number
        made.range(start, start + 50_000, name)
        made.call(start + 1000, number)
        made.kernel(start + 3000, start + 4000 + number, number, "k")
    read(made.path.read_bytes(), "a.sqlite")
    (timeline,) = json.loads((tmp_path / "out.json").read_text())["timelines"]
    rows = {row["name"]: row["instances"] for row in timeline["ranges"]}
    grouped = count > 12 or stays == "aten::mul"
    assert rows == ({stays: count} if grouped else dict.fromkeys(names, 1))
    members = timeline["ranges_in_groups"]
    assert members["count"] == (count if grouped else 0)
    assert {row["name"]: row["gpu_ns"] for row in members["longest"]} == (
        {name: 1000 + number for number, name in enumerate(names, start=1)} if grouped else {}
    )


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


@pytest.mark.parametrize("name", ["details page of ncu", "text of ncu"])
def test_a_duration_without_its_unit_is_missing_and_said(read, name):
    form = next(form for form in FORMATS if form.name == name)
    record = tuple(
        line.replace('"ns"', '""').replace("   us ", "      ") for line in form.records[1]
    )
    assert record != form.records[1]
    facts, said = read(form.text(form.records[0], record))
    assert sorted(time for _, time in facts if time is not None) == [NS[0]]
    assert "an empty cell is no unit of" in said
