"""SQLite exports of nsys: a real one, and small ones with what it does not have."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from nsys_exports import DOMAIN, MAIN, MARK, PROCESS, START_END, WORKER, ExportFile

from profiler.errors import ParseError
from profiler.parse.nsys import API_COLUMNS, OPERATION_COLUMNS, RANGE_COLUMNS, read_nsys

CAPTURE = Path(__file__).parents[2] / "recordings/nsys-2025.3/three_iterations.sqlite"


@pytest.fixture
def export(tmp_path):
    return ExportFile(tmp_path / "timeline.sqlite")


class TestRealExport:
    def test_sizes_and_versions(self):
        timeline = read_nsys(CAPTURE)
        kinds = timeline.operations["kind"].value_counts().to_dict()
        assert kinds == {"kernel": 12, "memset": 5, "memcpy": 0, "graph": 0}
        assert (len(timeline.ranges), len(timeline.api)) == (6, 1035)
        assert (timeline.nsys, timeline.schema) == ("2025.3.2.0", "3.20.3")

    def test_a_kernel(self):
        operations = read_nsys(CAPTURE).operations
        kernel = operations[operations["correlation"] == 1604].iloc[0]
        assert kernel["name"] == "cunn_SoftMaxForwardReg"
        assert kernel["demangled"].startswith("void at::native::<unnamed>::cunn_SoftMaxForwardReg<")
        assert (kernel["start_ns"], kernel["end_ns"]) == (3344868562, 3344963218)
        assert (kernel["device"], kernel["context"], kernel["stream"]) == (0, 1, 7)
        assert kernel[["grid_x", "grid_y", "grid_z"]].tolist() == [4096, 1, 1]
        assert kernel[["block_x", "block_y", "block_z"]].tolist() == [1024, 1, 1]
        assert kernel["registers"] == 30
        assert kernel[["static_shared_bytes", "dynamic_shared_bytes"]].tolist() == [0, 128]
        assert kernel[["graph_node", "bytes", "copy_kind"]].isna().all()

    def test_a_memset_has_no_grid(self):
        operations = read_nsys(CAPTURE).operations
        memset = operations[operations["kind"] == "memset"].iloc[0]
        assert (memset["name"], memset["demangled"]) == ("[CUDA memset]", "[CUDA memset]")
        assert memset["bytes"] == 4
        assert memset[["grid_x", "block_x", "registers", "dynamic_shared_bytes"]].isna().all()

    def test_ranges(self):
        ranges = read_nsys(CAPTURE).ranges
        assert ranges["name"].tolist() == [
            *("kernel_variant:v1", "run_0", "kernel_variant:v1", "run_1"),
            *("kernel_variant:v1", "run_2"),
        ]
        assert set(ranges["kind"]) == {"push_pop"}
        assert set(ranges["domain"]) == {""}
        assert ranges["thread"].nunique() == 1
        assert ranges.loc[1, ["start_ns", "end_ns"]].tolist() == [3344628912, 3344971694]
        assert not ranges["open"].any()

    def test_api_names_have_no_version(self):
        names = read_nsys(CAPTURE).api["name"].value_counts()
        assert names["cudaLaunchKernel"] == 7
        assert names["cudaGetDeviceProperties"] == 2  # ..._v12000
        assert names["cuGetProcAddress_v2"] == 880  # a name of its own, no version of CUDA

    def test_frames_are_in_order_of_time(self):
        timeline = read_nsys(CAPTURE)
        for frame in (timeline.operations, timeline.ranges, timeline.api):
            assert frame["start_ns"].is_monotonic_increasing
            assert frame.index.equals(pd.RangeIndex(len(frame)))


class TestLazyTables:
    def test_an_export_in_which_nothing_happened(self, export):
        timeline = read_nsys(export.path)
        assert tuple(timeline.operations.columns) == OPERATION_COLUMNS
        assert tuple(timeline.ranges.columns) == RANGE_COLUMNS
        assert tuple(timeline.api.columns) == API_COLUMNS
        assert (len(timeline.operations), len(timeline.ranges), len(timeline.api)) == (0, 0, 0)

    def test_types_do_not_depend_on_what_was_recorded(self, export):
        empty, real = read_nsys(export.path), read_nsys(CAPTURE)
        for name in ("operations", "ranges", "api"):
            left, right = getattr(empty, name).dtypes, getattr(real, name).dtypes
            assert left.map(str).to_dict() == right.map(str).to_dict()

    def test_an_export_of_old_without_its_own_description(self, tmp_path):
        export = ExportFile(tmp_path / "old.sqlite")
        export.launch(10, 20, 1)
        export.execute("DROP TABLE META_DATA_EXPORT")
        timeline = read_nsys(export.path)
        assert len(timeline.operations) == 1
        assert (timeline.nsys, timeline.schema) == (None, None)


class TestOperations:
    def test_copies_say_from_where_to_where(self, export):
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=5, end=9, bytes=4096, copyKind=1)
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=15, end=19, bytes=8, copyKind=2)
        copies = read_nsys(export.path).operations
        assert copies["name"].tolist() == [
            "[CUDA memcpy Host-to-Device]",
            "[CUDA memcpy Device-to-Host]",
        ]
        assert copies["copy_kind"].tolist() == ["Host-to-Device", "Device-to-Host"]
        assert copies["bytes"].tolist() == [4096, 8]

    def test_copies_of_unified_memory_without_labels(self, export):
        for start, kind in enumerate((11, 11, 12, 13), start=5):
            export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=9, copyKind=kind)
        export.execute("DROP TABLE IF EXISTS ENUM_CUDA_MEMCPY_OPER")
        kinds = read_nsys(export.path).operations["copy_kind"].tolist()
        assert kinds == [
            *["Unified Host-to-Device"] * 2,
            *("Unified Device-to-Host", "Unified Device-to-Device"),
        ]

    def test_labels_of_the_export_come_first_and_unknown_ones_stay_apart(self, export):
        export.add("ENUM_CUDA_MEMCPY_OPER", id=12, name="UVM", label="Unified Device-to-Host")
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=5, end=9, copyKind=12)
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=6, end=9, copyKind=99)
        copies = read_nsys(export.path).operations
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=7, end=9, copyKind=98)
        copies = read_nsys(export.path).operations
        assert copies["copy_kind"].tolist() == [
            "Unified Device-to-Host",
            "of kind 99",
            "of kind 98",
        ]
        assert copies.loc[1, "name"] == "[CUDA memcpy of kind 99]"

    def test_graph_nodes_and_whole_graphs(self, export):
        export.kernel(10, 20, 1, graphNodeId=4294967297)
        export.kernel(30, 40, 1, graphNodeId=0)  # what schemas without NULL wrote
        export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=50, end=90, correlationId=2)
        operations = read_nsys(export.path).operations
        assert operations["kind"].tolist() == ["kernel", "kernel", "graph"]
        assert operations.loc[0, "graph_node"] == 4294967297
        assert operations["graph_node"].isna().tolist() == [False, True, True]


class TestRanges:
    def test_registered_strings_domains_and_colours(self, export):
        other = export.string("registered")
        export.add("NVTX_EVENTS", start=1, eventType=DOMAIN, text="profiler", domainId=3)
        export.range(10, 20, "plain", color=0xFF00FF00)
        export.range(11, 19, None, textId=other, domainId=3)
        export.range(12, 18, "unknown domain", domainId=8)
        export.range(13, 17, None)
        ranges = read_nsys(export.path).ranges
        assert ranges["name"].tolist()[:3] == ["plain", "registered", "unknown domain"]
        assert pd.isna(ranges.loc[3, "name"])
        assert ranges["domain"].tolist() == ["", "profiler", "domain 8", ""]
        assert ranges.loc[0, "colour"] == 0xFF00FF00
        assert pd.isna(ranges.loc[1, "colour"])

    def test_names_of_emit_nvtx_have_no_numbers_of_calls(self, export):
        names = (
            *("aten::mul, seq = 100, op_id = 5000", "aten::mul, seq = 101, op_id = 5001"),
            "aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = [(3,0), (4,0)]",
            *("MulBackward0, stashed seq = 3, seq = -1", "mine, a = 3"),
        )
        for start, name in enumerate(names):
            export.range(start, 20, name)
        assert read_nsys(export.path).ranges["name"].tolist() == [
            *("aten::mul", "aten::mul", "aten::mm, sizes = [[2, 3], [3, 4]]", "MulBackward0"),
            "mine, a = 3",
        ]

    def test_ranges_of_the_runner_are_told_apart_in_the_default_domain(self, export):
        for start, name in enumerate(["cell=a..p0;block=3", "launch=0", None, "step"]):
            export.range(start, 20, name)
        ranges = read_nsys(export.path).ranges
        assert ranges["domain"].tolist() == ["profiler", "profiler", "", ""]

    def test_a_domain_belongs_to_its_process(self, export):
        elsewhere = MAIN + (5 << 24)
        export.add("NVTX_EVENTS", start=1, eventType=DOMAIN, text="mine", domainId=1)
        export.add(
            "NVTX_EVENTS", start=2, eventType=DOMAIN, text="yours", domainId=1, globalTid=elsewhere
        )
        export.range(10, 20, "a", domainId=1)
        export.range(11, 20, "b", domainId=1, globalTid=elsewhere)
        assert read_nsys(export.path).ranges["domain"].tolist() == ["mine", "yours"]

    def test_kinds_and_threads(self, export):
        export.range(10, 20, "range")
        export.range(12, 30, "async", eventType=START_END, endGlobalTid=WORKER)
        export.range(15, None, "mark", eventType=MARK)
        ranges = read_nsys(export.path).ranges
        assert ranges["kind"].tolist() == ["push_pop", "start_end", "mark"]
        assert ranges["thread"].tolist() == [MAIN] * 3
        assert ranges["process"].tolist() == [PROCESS >> 24] * 3
        assert ranges["end_thread"].tolist() == [pd.NA, WORKER, pd.NA]
        assert ranges["end_ns"].tolist() == [20, 30, 15]
        assert not ranges["open"].any()

    def test_a_range_that_never_ended_lasts_as_long_as_the_export(self, export):
        export.range(10, None, "whole")
        export.range(20, 30, "part")
        export.launch(40, 90, 1)
        ranges = read_nsys(export.path).ranges
        assert ranges["open"].tolist() == [True, False]
        assert ranges["end_ns"].tolist() == [100, 30]

    def test_other_events_are_no_ranges(self, export):
        export.add("NVTX_EVENTS", start=1, eventType=33, text="category name")
        export.add("NVTX_EVENTS", start=1, eventType=39, text="thread name")
        assert len(read_nsys(export.path).ranges) == 0


class TestSchemas:
    def test_an_absent_optional_column_is_missing(self, tmp_path):
        kernel, runtime = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
        export = ExportFile(
            tmp_path / "old.sqlite",
            drop=[
                (kernel, "globalPid"),
                (kernel, "graphNodeId"),
                (kernel, "registersPerThread"),
                (runtime, "globalTid"),
                ("NVTX_EVENTS", "textId"),
                ("NVTX_EVENTS", "color"),
            ],
        )
        export.launch(10, 20, 1)
        export.range(5, 15, "range")
        timeline = read_nsys(export.path)
        assert timeline.operations.loc[0, ["process", "graph_node", "registers"]].isna().all()
        assert pd.isna(timeline.api.loc[0, "thread"])
        assert timeline.ranges.loc[0, "name"] == "range"

    def test_an_absent_required_column_is_an_error_that_names_it(self, tmp_path):
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        export = ExportFile(tmp_path / "new.sqlite", drop=[(table, "streamId")])
        export.kernel(10, 20, 1)
        with pytest.raises(ParseError, match=rf"new\.sqlite: table {table} has no column streamId"):
            read_nsys(export.path)
        with pytest.raises(ParseError, match=r"schema version 9\.9\.9"):
            read_nsys(export.path)

    def test_a_column_of_another_type_is_an_error(self, export):
        export.kernel("soon", 20, 1)
        with pytest.raises(ParseError, match="KERNEL holds a value that is not an integer"):
            read_nsys(export.path)

    def test_a_cell_of_another_type_costs_what_it_says(self, export):
        export.kernel(10, 20, 1)
        export.kernel("soon", 40, 2)
        for kind in (1, "x"):
            export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=50, end=60, copyKind=kind)
        timeline = read_nsys(export.path)
        assert timeline.operations["start_ns"].tolist() == [10, 50, 50]
        assert timeline.operations["copy_kind"].notna().sum() == 1
        assert sum(timeline.unread.values()) == 1

    def test_what_ends_before_its_beginning_is_left_out_and_counted(self, export):
        export.kernel(10, 20, 1)
        export.kernel(40, 30, 2)
        export.call(5, 1, end=8)
        export.call(20, 2, end=10)
        timeline = read_nsys(export.path)
        assert (len(timeline.operations), len(timeline.api)) == (1, 1)
        assert timeline.unread == {
            "operation that ends before it begins": 1,
            "call that ends before it begins": 1,
        }

    def test_without_the_calls_of_operations_nothing_could_be_given_to_ranges(self, tmp_path):
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        export = ExportFile(tmp_path / "other.sqlite", drop=[(table, "correlationId")])
        export.kernel(10, 20, 1)
        assert len(read_nsys(export.path).operations) == 1, "there are no calls either"
        export.launch(10, 20, 1)
        with pytest.raises(ParseError, match=r"other\.sqlite: no operation says by which call"):
            read_nsys(export.path)


class TestWhatIsNoExport:
    def test_absent_file(self, tmp_path):
        with pytest.raises(ParseError, match=r"absent\.sqlite: no such file"):
            read_nsys(tmp_path / "absent.sqlite")

    @pytest.mark.parametrize("content", [b"", b"# a report\n" * 200, b"SQLite format 3\0" * 90])
    def test_other_files(self, tmp_path, content):
        path = tmp_path / "report.nsys-rep"
        path.write_bytes(content)
        with pytest.raises(ParseError, match=r"report\.nsys-rep") as caught:
            read_nsys(path)
        assert "nsys export" in caught.value.remedy

    def test_truncated_export(self, tmp_path):
        path = tmp_path / "cut.sqlite"
        path.write_bytes(CAPTURE.read_bytes()[:40_000])
        with pytest.raises(ParseError, match=r"cut\.sqlite: it is cut off"):
            read_nsys(path)

    def test_another_database(self, tmp_path):
        path = tmp_path / "other.sqlite"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        with pytest.raises(ParseError, match="not an SQLite export of Nsight Systems"):
            read_nsys(path)

    def test_export_of_another_product(self, export):
        export.execute(
            "UPDATE META_DATA_EXPORT SET value = 'Other Tool' WHERE value LIKE 'NVIDIA%'"
        )
        export.kernel(10, 20, 1)
        with pytest.raises(ParseError, match="not an SQLite export of Nsight Systems"):
            read_nsys(export.path)


def test_the_file_is_only_read(tmp_path):
    folder = tmp_path / "50% of #1?"
    folder.mkdir()
    path = folder / "a b.sqlite"
    path.write_bytes(CAPTURE.read_bytes())
    path.chmod(0o444)
    assert len(read_nsys(path).operations) == 17
    assert path.read_bytes() == CAPTURE.read_bytes()
    assert [file.name for file in folder.iterdir()] == ["a b.sqlite"]


def test_what_is_private_is_never_read(export):
    planted = "hunter2-token"
    export.launch(10, 20, 1)
    export.range(5, 15, "range")
    for table in ("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "PROCESSES", "ThreadNames"):
        export.execute(f"CREATE TABLE {table} (name TEXT, value TEXT)")
        export.execute(f"INSERT INTO {table} VALUES ('SECRET', ?)", (planted,))  # noqa: S608
    export.add("META_DATA_EXPORT", name="EXPORT_USER", value=planted)
    export.string(planted)
    timeline = read_nsys(export.path)
    for frame in (timeline.operations, timeline.ranges, timeline.api):
        assert planted not in frame.to_csv()
        for column in frame.select_dtypes("category"):
            assert planted not in frame[column].cat.categories
    assert planted not in f"{timeline.nsys} {timeline.schema}"
