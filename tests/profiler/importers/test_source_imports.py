"""`profiler import` of source pages and of reports of ncu."""

import gzip
import json
import os
import shutil
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from profiler.commands.importing import import_files
from profiler.commands.output import dump
from profiler.commands.requests import ImportRequest
from profiler.errors import EnvironmentUnusable, ParseError
from profiler.importers.registry import read_files

RECORDINGS = Path(__file__).parents[2] / "recordings/ncu-source-2025.3.1"
# Prints the recorded page that the options ask for, as ncu does of its report.
STAND_IN = """\
#!{python}
import gzip, sys
from pathlib import Path

options = dict(zip(sys.argv[1:], sys.argv[2:]))
report = Path(options["--import"])
if not report.read_bytes().startswith(b"NVR"):
    sys.exit(print(f"==ERROR== Could not open report file '{{report}}'."))
page = options["--page"] if options["--page"] == "raw" else options["--print-source"]
name = report.name.partition(".")[0] + "_" + page.replace(",", "_")
print(gzip.decompress(Path({folder!r}, name + ".csv.gz").read_bytes()).decode(), end="")
"""


@pytest.fixture
def environ(tmp_path):
    ncu = tmp_path / "bin" / "ncu"
    ncu.parent.mkdir()
    ncu.write_text(STAND_IN.format(python=sys.executable, folder=str(RECORDINGS)))
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    return {"PROFILER_NCU": str(ncu)}


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "repeated.ncu-rep"
    path.write_bytes(b"NVR\0 as ncu writes it")
    return path


def page(name):
    return RECORDINGS / f"{name}.csv.gz"


def test_lines_with_the_most_samples_come_first():
    document = read_files([page("planted_cuda_sass")])[0].document()
    assert document["warnings"] == []
    transposed, sums, _ = document["kernels"]
    assert transposed["lines"][1] == {
        "file": "defects.cu",
        "line": 8,
        "text": "out[x * n + y] = in[y * n + x];  // neighbours write n floats apart",
        "samples_not_issued": 6112,
        "share": pytest.approx(6112 / 30144),
        "reason": "long_scoreboard:global_memory",
        "executed": 5_242_880,
    }
    assert [line["line"] for line in sums["lines"][:2]] == [19, 13]
    assert sums["executed"]["load_shared"] == 4_194_304
    assert sum(sums["executed"].values()) == 34_078_720


def test_without_line_information_the_lines_are_instructions():
    kernels = read_files([page("torch_sass")])[0].kernels
    assert len(kernels) == 6
    assert not any(kernel.has_lines for kernel in kernels)
    for kernel in kernels:
        assert 1 <= len(kernel.lines) <= 20
        assert all(line.line is None for line in kernel.lines)
        samples = [line.samples for line in kernel.lines]
        assert samples == sorted(samples, reverse=True)


def test_a_launch_without_samples_has_no_lines():
    kernels = read_files([page("repeated_sass")])[0].kernels
    sampled, missed = [kernel for kernel in kernels if "nothing" in kernel.kernel]
    assert [line.samples for line in sampled.lines] == [1]
    assert missed.lines == ()
    assert sum(missed.executed.values()) == 2


def test_a_report_gives_launches_and_source_lines(environ, report):
    imported, _ = read_files([report], environ=environ)
    assert imported.launches["kernel"].tolist() == [k.kernel for k in imported.kernels]
    assert imported.notices == ()
    lined = [kernel for kernel in imported.kernels if kernel.has_lines]
    assert {kernel.kernel for kernel in lined} == {"lined(float *, int)", "nothing(float *)"}
    assert {line.file for line in lined[0].lines} == {"/src/a.cu", "/src/h.cuh"}
    assert {kernel.file for kernel in imported.kernels} == {"repeated.ncu-rep"}


def test_a_packed_report_reads_like_the_plain_one(environ, report):
    packed = report.with_name("repeated.ncu-rep.gz")
    packed.write_bytes(gzip.compress(report.read_bytes()))
    assert len(read_files([packed], environ=environ)[0].kernels) == 9
    packed.write_bytes(packed.read_bytes()[:20])
    with pytest.raises(ParseError, match="cannot be unpacked"):
        read_files([packed], environ=environ)


def test_what_ncu_says_of_a_bad_report_is_in_the_error(environ, report):
    report.write_bytes(b"something else")
    with pytest.raises(ParseError, match="Could not open report file"):
        read_files([report], environ=environ)
    report.unlink()
    with pytest.raises(ParseError, match=r"repeated\.ncu-rep: no such file"):
        read_files([report], environ=environ)


def test_without_ncu_the_error_says_what_to_run_elsewhere(report, tmp_path):
    with pytest.raises(EnvironmentUnusable) as raised:
        read_files([report], environ={"PROFILER_NCU": str(tmp_path / "nowhere"), "PATH": ""})
    assert "repeated.ncu-rep is a report, which only ncu can read" in raised.value.message
    for command in ("--page raw --print-units base", "--page source --print-source sass"):
        assert f"ncu --import repeated.ncu-rep --csv {command}" in raised.value.remedy


class Metric:
    """A metric as NVIDIA's module has it."""

    def __init__(self, value, unit="", instances=None):
        self.value, self.unit = (lambda: value), (lambda: unit)
        self.has_value = lambda: value is not None
        counts = instances or {}
        self.num_instances = lambda: len(counts)
        self.as_double = [*map(float, counts.values())].__getitem__
        self.correlation_ids = lambda: SimpleNamespace(as_uint64=[*counts].__getitem__)


class Action:
    """A launch as NVIDIA's module has it; its ranges are those of the default domain."""

    NameBase_DEMANGLED = 2

    def __init__(self, name, metrics, ranges=(), code=None):
        code = code or {}
        self.sass_by_pc = lambda address: code[address][0]
        self.source_info = lambda address: code[address][1]
        self.source_files = lambda: {"/src/a.cu": "int a;\n  x[i] = y[i];\n", "/src/b.cuh": ""}
        self.name = lambda base: {2: name}[base]
        self.metric_names = lambda: tuple(metrics)
        self.metric_by_name = metrics.get
        domain = SimpleNamespace(
            name=lambda: "<default domain>",
            push_pop_ranges=lambda: ranges,
            start_end_ranges=tuple,
        )
        state = SimpleNamespace(domains=lambda: (0,), domain_by_id=lambda _: domain)
        self.nvtx_state = lambda: state if ranges else None


STALLED = "smsp__pcsamp_warps_issue_stalled_"


def line(file, number):
    return SimpleNamespace(file_name=lambda: file, line=lambda: number)


@pytest.fixture
def module(monkeypatch):
    """A stand-in for NVIDIA's module of what its documentation describes."""
    sizes = {
        f"launch__{k}_dim_{a}": Metric(n) for k, n in (("block", 32), ("grid", 4)) for a in "xyz"
    }
    facts = {
        "sm__cycles_elapsed.max": Metric(1234, "cycle"),
        "launch__func_cache_config": Metric("x"),
    }
    first = {"gpu__time_duration.sum": Metric(1500.5, "nsecond"), **sizes, **facts}
    second = {
        "gpu__time_duration.sum": Metric(None, "nsecond"),
        "inst_executed": Metric(7, "inst", instances={64: 4, 80: 3, 96: 2}),
        f"{STALLED}long_scoreboard": Metric(9, instances={80: 8, 96: 1}),
        f"{STALLED}long_scoreboard_not_issued": Metric(8, instances={64: 2, 80: 6}),
        f"{STALLED}selected": Metric(1, instances={64: 1}),
        "l1tex__t_sector_hit_rate.pct": Metric(float("nan"), "%"),
    }
    code = {
        64: ("      LDG.E R2, [R4]", line("/src/a.cu", 2)),
        80: ("      FADD R2, R2, R3", line("/src/b.cuh", 7)),
        96: ("      EXIT", None),
    }
    in_ranges = Action("void k<int, 2>(int *)", first, ("outer", "in:ner"))
    actions = [in_ranges, Action("relu", second, code=code)]
    a_range = SimpleNamespace(num_actions=lambda: 2, action_by_idx=actions.__getitem__)

    def load_report(path):
        if not Path(path).read_bytes():
            raise RuntimeError("Could not open report")
        return SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda _: a_range)

    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=load_report))


@pytest.mark.parametrize("name", ["a.ncu-rep", "a.ncu-repz", "a.ncu-rep.gz"])
def test_without_ncu_its_python_module_gives_the_launches(tmp_path, module, name):
    content = b"report"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    read, _ = read_files([tmp_path / name], environ={"PROFILER_NCU": "/nowhere", "PATH": ""})
    document = json.loads(dump(read.document()))
    first, second = document["launches"]
    assert (first["kernel"], first["nvtx"]) == ("void k<int, 2>(int *)", ["outer", "in:ner"])
    assert (first["block_size"], first["grid_size"]) == ("(32, 32, 32)", "(4, 4, 4)")
    assert first["metrics"]["duration_ns"] == 1500.5
    assert first["metrics"]["cycles"] == 1234
    assert second["kernel"] == "relu"
    assert second["metrics"]["duration_ns"] is None
    assert second["metrics"]["l1tex__t_sector_hit_rate.pct"] is None
    assert document["warnings"] == []
    (kernel,) = document["kernels"]
    assert kernel["kernel"] == "relu"
    assert kernel["executed"] == {"load_global": 4, "fma": 3, "control": 2}
    lines = [[line[key] for key in ("file", "line", "text", "share")] for line in kernel["lines"]]
    assert lines == [
        ["b.cuh", 7, "FADD R2, R2, R3 ← LDG.E R2, [R4]", 0.75],
        ["a.cu", 2, "x[i] = y[i];", 0.25],
    ]


def test_what_the_module_says_of_a_bad_report_is_in_the_error(tmp_path, module):
    (tmp_path / "a.ncu-rep").touch()
    with pytest.raises(ParseError, match=r"a\.ncu-rep.*Could not open report"):
        read_files([tmp_path / "a.ncu-rep"], environ={"PROFILER_NCU": "/nowhere", "PATH": ""})


def test_a_report_in_which_the_module_finds_nothing_is_refused(tmp_path, monkeypatch):
    nothing = SimpleNamespace(load_report=lambda _: SimpleNamespace(num_ranges=lambda: 0))
    monkeypatch.setitem(sys.modules, "ncu_report", nothing)
    (tmp_path / "a.ncu-rep").touch()
    with pytest.raises(ParseError, match=r"a\.ncu-rep.*finds no launch"):
        read_files([tmp_path / "a.ncu-rep"], environ={"PROFILER_NCU": "/nowhere", "PATH": ""})


def test_a_folder_stands_for_reports_of_both_names(tmp_path, module, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # the page lies where it is called
    monkeypatch.setenv("PROFILER_NCU", "/nowhere")
    for name in ("a.ncu-rep", "b.ncu-repz", "notes.txt"):
        (tmp_path / name).write_text("report")
    import_files(ImportRequest([tmp_path], json_target=str(tmp_path / "out.json")))
    document = json.loads((tmp_path / "out.json").read_text())
    assert len(document["launches"]) == 4
    left_out = "1 file of no format that is read (notes.txt)"
    assert left_out in document["warnings"][-1]["text"]
    assert left_out in " ".join(capsys.readouterr().err.split())


def test_the_command_makes_tables_and_a_page_of_a_source_page(profiler):
    shutil.copy(page("planted_cuda_sass"), profiler.folder / "lines.csv.gz")
    done = profiler("import", "lines.csv.gz")
    assert done.code == 0, done.err
    assert "defects.cu:19" in done.out
    assert "load shared" in done.out
    html = (profiler.folder / "lines.html").read_text()
    assert "sum += tile[threadIdx.x][i];" in html
    assert "for (int r = 0; r &lt; 16; ++r) {" in html
    assert "/src/" not in html


def test_the_command_makes_one_page_of_a_report(profiler, environ, report):
    done = profiler("import", os.path.relpath(report, profiler.folder), **environ)
    assert done.code == 0, done.err
    assert "9 launches" in done.out
    html = (profiler.folder / "repeated.html").read_text()
    assert "h.cuh:1" in html
    assert 'id="launches"' in html


def test_a_page_of_source_lines_alone_is_refused_with_what_to_print(tmp_path):
    page = tmp_path / "lines.csv"
    page.write_text('"File Name","/src/a.cu"\n"Line No","Source"\n"1","int x;"\n')
    with pytest.raises(ParseError, match="without instructions") as error:
        read_files([page])
    assert "--print-source sass or cuda,sass" in error.value.remedy
