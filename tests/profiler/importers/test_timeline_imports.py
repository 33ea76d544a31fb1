"""`profiler import` of timelines: numbers by definition, reports through nsys, nothing private."""

import csv
import gzip
import json
import sqlite3
import statistics
from contextlib import closing
from pathlib import Path

import pytest
from as_read import strict_json
from torch_traces import TraceFile

from profiler.commands.output import dump
from profiler.errors import EnvironmentUnusable, ParseError, UsageError
from profiler.importers.registry import read_files
from profiler.importers.timelines import timelines_to_draw
from profiler.render.imported import (
    imported_text,
    render_imported,
    timeline_section,
    timelines_page,
)

RECORDING = Path(__file__).parents[2] / "recordings/nsys-2025.3/three_iterations.sqlite"
CSV = Path(__file__).parents[2] / "recordings/ncu-2025.3.1/ncu_raw_6metrics_2kernels.csv"
SECRET = "hunter2-0123456789"  # noqa: S105 - planted where a report keeps the environment

FAKE_NSYS = """\
#!/bin/sh
# export --type=sqlite --force-overwrite=true -o EXPORT REPORT
if [ "$1" = export ]; then cp "$6" "$5"; stat -c %a "$(dirname "$5")" > "{modes}"; fi
"""


def document(*files):
    """The document as another program gets it."""
    return strict_json(dump(read_files(files)[0].document()))


def timeline(*files):
    (one,) = document(*files)["timelines"]
    return one


def part(file):
    (one,) = read_files([file])[0].timelines
    return timeline_section(one.file, one.recorded_by, one.overview, one.unread)


def shown(file):
    return timelines_page([part(file)], timelines_to_draw(read_files([file])[0].timelines))


def page_of(file):
    return render_imported(shown(file), [file.name])


def select(query, file=RECORDING):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def nsys_stats(query):
    """Summary rows as `nsys stats` defines them, from pairs of name and duration."""
    durations = {}
    for name, duration in select(query):
        durations.setdefault(name, []).append(duration)
    total = sum(map(sum, durations.values()))
    return {
        name: {
            "name": name,
            "time_pct": pytest.approx(100 * sum(each) / total),
            "total_ns": sum(each),
            "instances": len(each),
            "avg_ns": pytest.approx(sum(each) / len(each)),
            "med_ns": statistics.median(each),
            "min_ns": min(each),
            "max_ns": max(each),
            "stddev_ns": pytest.approx(statistics.stdev(each)) if len(each) > 1 else None,
        }
        for name, each in durations.items()
    }


def by_name(rows):
    return {row["name"]: row for row in rows}


class TestByDefinition:
    """The real export, computed once more with SQL alone."""

    def test_kernels(self):
        expected = nsys_stats(
            "SELECT s.value, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k "
            "JOIN StringIds s ON s.id = k.demangledName"
        )
        found = timeline(RECORDING)["kernels"]
        assert by_name(found) == expected
        totals = [row["total_ns"] for row in found]
        assert len(totals) > 1
        assert totals == sorted(totals, reverse=True)

    def test_calls(self):
        # The report cuda_api_sum takes the version off a name that has one.
        expected = nsys_stats(
            "SELECT CASE WHEN substr(s.value, -6, 2) = '_v' "
            "THEN substr(s.value, 1, length(s.value) - 6) WHEN substr(s.value, -7, 2) = '_v' "
            "THEN substr(s.value, 1, length(s.value) - 7) ELSE s.value END, r.end - r.start "
            "FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId"
        )
        assert by_name(timeline(RECORDING)["api"]) == expected
        assert "cudaLaunchKernel" in expected

    def test_memsets(self):
        query = "SELECT '[CUDA memset]', end - start FROM CUPTI_ACTIVITY_KIND_MEMSET"
        assert by_name(timeline(RECORDING)["other_operations"]) == nsys_stats(query)

    def test_ranges_inclusive(self):
        expected = select(
            "SELECT n.text, count(*), sum(o.end - o.start) FROM NVTX_EVENTS n "
            "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.globalTid = n.globalTid "
            "AND r.start >= n.start AND r.start < n.end "
            "JOIN (SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL "
            "SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_MEMSET) o "
            "ON o.correlationId = r.correlationId WHERE n.eventType = 59 GROUP BY n.text"
        )
        ranges = timeline(RECORDING)["ranges"]
        found = [(row["name"], row["operations"], row["gpu_ns"]) for row in ranges]
        assert sorted(found) == sorted(expected)
        assert len(found) == 4

    def test_ranges_exclusive(self):
        outer, *inner = timeline(RECORDING)["ranges"]
        assert outer["self_gpu_ns"] == outer["gpu_ns"] - sum(row["gpu_ns"] for row in inner) == 0
        assert all(row["self_gpu_ns"] == row["gpu_ns"] > 0 for row in inner)

    def test_gaps_and_what_was_busy_are_all_the_time_there_is(self):
        found = timeline(RECORDING)
        union = (
            "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL "
            "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMSET ORDER BY start"
        )
        rows = select(union)
        idle, latest = 0, rows[0][1]
        for start, end in rows[1:]:
            idle, latest = idle + max(0, start - latest), max(latest, end)
        assert found["idle_gaps"]["total_ns"] == idle > 0
        assert found["busy_ns"] + idle == found["span_ns"]
        longest = [row["idle_ns"] for row in found["idle_gaps"]["longest"]]
        assert longest == sorted(longest, reverse=True)
        assert found["idle_gaps"]["count"] == len(longest)

    def test_launch_latency(self):
        rows = select(
            "SELECT s.value, k.start - r.start FROM CUPTI_ACTIVITY_KIND_KERNEL k "
            "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId "
            "JOIN StringIds s ON s.id = k.shortName"
        )
        latencies = {}
        for name, latency in rows:
            latencies.setdefault(name, []).append(latency)
        found = by_name(timeline(RECORDING)["launch_latency"])
        assert found.keys() - latencies.keys() == {"[CUDA memset]"}
        for name, each in latencies.items():
            assert found[name]["launches"] == len(each)
            assert found[name]["med_ns"] == statistics.median(each)
            assert found[name]["max_ns"] == max(each)

    def test_versions(self):
        found = timeline(RECORDING)
        assert (found["file"], found["tool"]) == ("three_iterations.sqlite", "nsys")
        assert found["tool_version"].startswith("2025.3.2")
        assert found["file_schema"] == "3.20.3"


class TestShown:
    def test_page_and_console_have_every_table(self, capsys):
        one = part(RECORDING)
        page = page_of(RECORDING)
        titles = [table.caption for table in one.tables]
        assert titles == [
            "Kernels",
            "Copies and memsets",
            "Ranges",
            "Idle gaps",
            "Launch latency",
            "CUDA calls",
        ]
        for title in titles:
            assert f">{title}</h3>" in page
        assert "cudaLaunchKernel" in page
        assert 'id="timeline-data"' in page
        assert "3 times run_*" in page
        assert 'data-value="893533"' in page  # nvjet's total in ns, as SQL sums it
        from rich.console import Console

        Console(width=200).print(imported_text(shown(RECORDING)))
        printed = capsys.readouterr().out
        assert all(title in printed for title in titles)
        assert "  run_0" in printed
        assert "\ufffd" not in printed

    def test_one_axis_begins_with_the_first_event(self):
        (one,) = read_files([RECORDING])[0].timelines
        frames = (one.timeline.operations, one.timeline.ranges, one.timeline.api)
        assert min(frame["start_ns"].min() for frame in frames) == 0
        operations = one.timeline.operations
        assert (operations["launch_ns"].dropna() >= 0).all()
        assert (operations["launch_ns"] <= operations["start_ns"]).all()

    def test_names_are_escaped(self, tmp_path):
        file = tmp_path / "a.sqlite"
        file.write_bytes(RECORDING.read_bytes())
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE NVTX_EVENTS SET text = '<script>x</script>'")
        page = page_of(file)
        assert "<script>x" not in page
        assert "&lt;script&gt;x" in page

    def test_a_timeline_without_operations(self, tmp_path):
        file = tmp_path / "empty.sqlite"
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
            connection.execute(
                "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_NAME', 'NVIDIA Nsight "
                "Systems')"
            )
        found = timeline(file)
        assert (found["operations"], found["span_ns"], found["kernels"]) == (0, None, [])
        one = part(file)
        assert one.tables == ()
        assert "No kernel, copy or memset" in page_of(file)


class TestFiles:
    def test_kinds_are_not_mixed(self):
        with pytest.raises(UsageError, match=r"is a timeline of nsys, and ncu_raw.* is CSV of ncu"):
            read_files([RECORDING, CSV])

    def test_another_database_is_refused_by_its_name(self, tmp_path):
        file = tmp_path / "songs.sqlite"
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE songs (title TEXT)")
        with pytest.raises(ParseError, match=r"songs\.sqlite"):
            read_files([file])

    def test_a_packed_export_reads_like_the_plain_one(self, tmp_path):
        packed = tmp_path / "a.sqlite.gz"
        packed.write_bytes(gzip.compress(RECORDING.read_bytes()))
        assert timeline(packed) == {**timeline(RECORDING), "file": "a.sqlite.gz"}

    def test_a_packed_export_that_was_cut(self, tmp_path):
        packed = tmp_path / "a.sqlite.gz"
        packed.write_bytes(gzip.compress(RECORDING.read_bytes())[:-2000])
        with pytest.raises(ParseError, match=r"a\.sqlite\.gz: cannot be unpacked"):
            read_files([packed])

    def test_several_files_are_one_document(self, tmp_path):
        other = tmp_path / "b.sqlite"
        other.write_bytes(RECORDING.read_bytes())
        found = document(RECORDING, other)["timelines"]
        assert [each["file"] for each in found] == ["three_iterations.sqlite", "b.sqlite"]


@pytest.fixture
def report(tmp_path):
    """A report that the stand-in for nsys exports."""
    file = tmp_path / "mine.nsys-rep"
    file.write_bytes(RECORDING.read_bytes())
    return file


@pytest.fixture
def environ(tmp_path):
    nsys = tmp_path / "nsys"
    nsys.write_text(FAKE_NSYS.format(modes=tmp_path / "modes"))
    nsys.chmod(0o755)
    return {"PROFILER_NSYS": str(nsys), "PATH": ""}


class TestReports:
    def test_a_report_is_exported_where_nobody_else_can_read(self, report, environ, tmp_path):
        (one,) = read_files([report], environ=environ)[0].timelines
        assert one.file == "mine.nsys-rep"
        assert one.overview.operations == timeline(RECORDING)["operations"]
        assert (tmp_path / "modes").read_text().strip() == "700"
        assert {file.name for file in tmp_path.iterdir()} == {"mine.nsys-rep", "nsys", "modes"}

    def test_a_packed_report(self, report, environ, tmp_path):
        packed = tmp_path / "mine.nsys-rep.gz"
        packed.write_bytes(gzip.compress(report.read_bytes()))
        (one,) = read_files([packed], environ=environ)[0].timelines
        assert one.overview.operations == timeline(RECORDING)["operations"]

    def test_without_nsys_the_way_out_is_said(self, report):
        with pytest.raises(EnvironmentUnusable) as caught:
            read_files([report], environ={"PROFILER_NSYS": "/nowhere/nsys"})
        assert "mine.nsys-rep" in caught.value.message
        assert "nsys export --type sqlite" in str(caught.value.remedy)

    def test_an_export_that_fails_gives_the_words_of_nsys(self, report, environ):
        Path(environ["PROFILER_NSYS"]).write_text("#!/bin/sh\necho 'Unknown file format' >&2\n")
        with pytest.raises(EnvironmentUnusable, match="Unknown file format"):
            read_files([report], environ=environ)

    def test_a_missing_library_names_its_package(self, report, environ):
        Path(environ["PROFILER_NSYS"]).write_text(
            "#!/bin/sh\necho 'nsys: error while loading shared libraries: libdw.so.1: cannot open "
            "shared object file' >&2; exit 127\n"
        )
        with pytest.raises(EnvironmentUnusable) as caught:
            read_files([report], environ=environ)
        assert "libdw1" in str(caught.value.remedy)


class TestTraces:
    """Chrome traces of torch.profiler."""

    def trace(self, path):
        made = TraceFile(path)
        made.range("forward", 0, 100)
        made.launch(11, 5)
        made.launch(12, 40, name="cuLaunchKernelEx")
        made.range("backward", 100, 200)
        made.call(13, 110, name="cudaMemcpyAsync")
        made.copy(13, 120, "Memcpy HtoD (Pageable -> Device)")
        return made.write()

    @pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
    def test_a_trace_has_the_same_tables(self, tmp_path, name):
        found = timeline(self.trace(tmp_path / name))
        assert (found["file"], found["tool"], found["file_schema"]) == (name, "torch.profiler", "1")
        assert [(row["instances"], row["total_ns"]) for row in found["kernels"]] == [(2, 10_000)]
        ranges = [(row["name"], row["operations"], row["gpu_ns"]) for row in found["ranges"]]
        assert ranges == [("forward", 2, 10_000), ("backward", 1, 1000)]
        assert by_name(found["launch_latency"])["k"]["med_ns"] == 10_000
        assert {row["name"] for row in found["api"]} == {
            "cudaLaunchKernel",
            "cuLaunchKernelEx",
            "cudaMemcpyAsync",
        }

    def test_neither_paths_nor_names_of_the_machine_get_out(self, tmp_path):
        file = self.trace(tmp_path / "trace.json")
        assert "secret" in file.read_text()
        text = page_of(file) + json.dumps(document(file))
        assert "secret" not in text
        assert "somebody" not in text

    def test_a_trace_without_a_gpu_says_so(self, tmp_path):
        made = TraceFile(tmp_path / "cpu.json")
        made.range("forward", 0, 100)
        made.add("cpu_op", "aten::mm", 10, 30)
        one = part(made.write())
        assert "without a GPU" in one.sentence
        assert [table.caption for table in one.tables] == ["Operators on the CPU", "Ranges"]
        heads = [column.head for column in one.tables[1].columns]
        assert "own CPU" in heads
        assert not [head for head in heads if "GPU" in head]

    def test_on_a_cpu_nothing_is_launched(self, tmp_path):
        made = TraceFile(tmp_path / "cpu.json")
        made.range("forward", 0, 100)
        made.add("cpu_op", "aten::mm", 10, 30)
        made.add("cpu_op", "aten::relu", 60, 70)
        file = made.write()
        gaps = next(table for table in part(file).tables if table.caption == "Idle gaps")
        assert [column.head for column in gaps.columns] == ["range", "idle", "at", "device"]
        found = timeline(file)
        assert (found["launch_latency"], found["api"]) == ([], [])
        assert [gap["host_late"] for gap in found["idle_gaps"]["longest"]] == [None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.sqlite", "not a database at all", r"mine\.sqlite: SQLite says"),
        ("chrome.json", '{"traceEvents": []}', r"chrome\.json"),
        ("a.best_config", '{"XBLOCK": 64}', "nothing in it"),
    ],
)
def test_what_only_looks_like_a_timeline_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ParseError, match=message):
        read_files([tmp_path / name])


STATS = """\
Processing [r.sqlite] with [/x/nvtx_sum.py]...

 ** NVTX Range Summary (nvtx_sum):

 Time (%)  Total Time (ns)  Instances   Avg (ns)   Style      Range
 --------  ---------------  ---------  ---------  -------  -----------
     60.0       12,000,000         10  1,200,000  PushPop  :forward
     40.0        8,000,000         10    800,000  PushPop  NCCL:reduce

Processing [r.sqlite] with [/x/osrt_sum.py]...

 ** OS Runtime Summary (osrt_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Name
 --------  ---------------  ---------  --------  -----
     99.0        9,000,000         10   900,000  poll

Processing [r.sqlite] with [/x/cuda_api_sum.py]...

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)        Name
 --------  ---------------  ---------  --------  ----------------
    100.0           50,000         10   5,000.0  cudaLaunchKernel

Processing [r.sqlite] with [/x/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)                  Name
 --------  ---------------  ---------  --------  -----------------------------------
    100.0           30,000          3  10,000.0  void gemm<float, int>(float *, int)

Processing [r.sqlite] with [/x/cuda_gpu_mem_time_sum.py]...

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count  Avg (ns)           Operation
 --------  ---------------  -----  --------  ----------------------------
    100.0            4,000      2   2,000.0  [CUDA memcpy Host-to-Device]

Processing [r.sqlite] with [/x/cuda_gpu_mem_size_sum.py]...

 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

 Total (MB)  Count  Avg (MB)           Operation
 ----------  -----  --------  ----------------------------
      0.134      2     0.067  [CUDA memcpy Host-to-Device]

"""
TRACES = """\
Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid
900,50,cudaLaunchKernel,0,13,7,7
19000,60,cudaLaunchKernel,0,14,7,7

Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Bytes (MB),Device,Ctx,Strm,Name
1000,500,12,,,,0.067,NVIDIA H100 (0),1,7,[CUDA memcpy Host-to-Device]
2000,8000,13,64,1,1,,NVIDIA H100 (0),1,7,"void k<int, float>(int)"
20000,9000,14,64,1,1,,NVIDIA H100 (0),1,7,"void k<int, float>(int)"

Start (ns),End (ns),Duration (ns),DurChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,RangeStack
800,1200,400,0,:forward,7,7,0,0,1,:1
18000,30000,12000,0,:backward,7,7,0,0,2,:2
"""


class TestStats:
    """What `nsys stats` prints."""

    @pytest.fixture
    def stats(self, tmp_path):
        def read(text):
            (tmp_path / "stats.txt").write_text(text)
            return timeline(tmp_path / "stats.txt")

        return read

    def test_sums_are_shown_as_they_are_and_the_rest_is_missing(self, stats):
        found = stats(STATS)
        assert found["file"] == "stats.txt (r.sqlite)"
        (kernel,), (copy,), (api,) = (found[n] for n in ("kernels", "other_operations", "api"))
        assert kernel["name"] == "void gemm<float, int>(float *, int)"
        assert [kernel[k] for k in ("total_ns", "instances", "avg_ns", "med_ns")] == [
            30_000, 3, 10_000, None,
        ]  # fmt: skip
        assert (copy["total_ns"], copy["instances"]) == (4000, 2)
        assert (api["name"], api["instances"]) == ("cudaLaunchKernel", 10)
        ranges = {(row["domain"], row["name"]): row["host_ns"] for row in found["ranges"]}
        assert ranges == {("", "forward"): 12_000_000, ("NCCL", "reduce"): 8_000_000}
        assert found["ranges"][0]["gpu_ns"] is None
        assert found["not_read"] == {
            "call that is none of CUDA": 1,
            "row of cuda_gpu_mem_size_sum": 1,
        }
        assert found["operations"] == 5
        assert [found[key] for key in ("span_ns", "busy_ns", "devices")] == [None] * 3
        assert found["idle_gaps"]["count"] is None

    def test_traces_are_a_timeline(self, stats):
        found = stats(TRACES)
        assert (found["operations"], found["span_ns"], found["not_read"]) == (3, 28_000, {})
        assert by_name(found["launch_latency"])["k"]["avg_ns"] == 1050
        ranges = {row["name"]: (row["operations"], row["gpu_ns"]) for row in found["ranges"]}
        assert ranges == {"forward": (1, 8000), "backward": (1, 9000)}

    @pytest.mark.parametrize("indent", [None, 2])
    def test_traces_in_json_say_the_same_and_a_row_that_was_cut_is_counted(self, stats, indent):
        tables = [list(csv.DictReader(table.splitlines())) for table in TRACES.split("\n\n")]
        in_json = [json.dumps(rows, indent=indent) for rows in tables]
        assert stats("\n\n".join(in_json)) == stats(TRACES)
        cut = "\n\n".join(in_json).rpartition("RangeStack")[0]
        assert stats(cut)["not_read"] == {"row that cannot be read": 1}

    def test_units_and_locales_are_as_they_are_written(self, stats):
        kernels = [
            stats(text)["kernels"][0]["total_ns"]
            for text in (
                "Time(%),Total Time (ns),Instances,Average,Name\n9,5000,1,1,k\n",
                "Time (%),Total Time (us),Instances,Avg (us),Name\n9.0,5.0,1,5.0,k\n",
                "Time (%);Total Time (ms);Instances;Avg (ms);Name\n9,0;0,005;1;0,005;k\n",
            )
        ]
        assert kernels == [5000] * 3
        trace = stats("Start (us),Duration (us),GrdX,Name\n2.002,1.001,1,k\n")
        assert trace["kernels"][0]["total_ns"] == 1001, "1.001 * 1e3 is a bit less"


def test_nothing_of_the_environment_gets_out(tmp_path, capsys):
    """What a real export holds beside the timeline, with a secret in every text of it."""
    file = tmp_path / "a.sqlite"
    file.write_bytes(RECORDING.read_bytes())
    with closing(sqlite3.connect(file)) as connection, connection:
        for table in (
            "META_DATA_CAPTURE",
            "TARGET_INFO_SYSTEM_ENV",
            "TARGET_INFO_SESSION_START_TIME",
            "PROCESSES",
            "ThreadNames",
            "TARGET_INFO_GPU",
        ):
            connection.execute(f"CREATE TABLE {table} (globalPid, name, value)")
            connection.execute(
                f"INSERT INTO {table} VALUES (1, 'API_TOKEN', '{SECRET}')"  # noqa: S608 - ours
            )
        connection.execute("INSERT INTO META_DATA_EXPORT VALUES ('HOST', ?)", [SECRET])
        connection.execute("INSERT INTO StringIds VALUES (999999, ?)", [SECRET])
    document_text = dump(read_files([file])[0].document())
    page = page_of(file)
    from rich.console import Console

    Console(width=500).print(imported_text(shown(file)))
    for text in (document_text, page, capsys.readouterr().out):
        assert "nvjet" in text
        assert SECRET not in text
        assert str(tmp_path) not in text


def test_the_command_makes_table_page_and_json(profiler):
    done = profiler("import", str(RECORDING))
    assert done.code == 0, done.err
    assert "Idle gaps" in done.out
    assert "Launch latency" in (profiler.folder / "three_iterations.html").read_text()
    assert profiler("import", str(RECORDING), "--json", "-").json["timelines"][0]["tool"] == "nsys"
