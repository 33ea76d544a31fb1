"""Chrome traces of torch.profiler: files with the fields of a GPU's, and live ones of a CPU."""

import gzip
import json
import random
from pathlib import Path

import pandas as pd
import pytest
from nsys_exports import ExportFile
from torch_traces import BACKWARD, BASE_NS, MAIN, PROCESS, START_US, TraceFile

from profiler.errors import ParseError
from profiler.parse.chrome_trace import read_traces, short_name
from profiler.parse.nsys import API_COLUMNS, OPERATION_COLUMNS, RANGE_COLUMNS, read_nsys
from profiler.parse.nsys_attribution import NO_STACK, attribute

START_NS = int(START_US) * 1000
RECORDINGS = Path(__file__).parents[2] / "recordings"


def names_around(found):
    """Names of the ranges around each operation, outermost first, in order of the operations."""
    names = found.ranges["name"].astype(object).to_numpy()
    paths = []
    for innermost in found.operations["stack"]:
        path, stack = [], innermost
        while stack != NO_STACK:
            path.insert(0, names[found.stacks.loc[stack, "range"]])
            stack = found.stacks.loc[stack, "parent"]
        paths.append(path)
    return paths


@pytest.fixture
def trace(tmp_path):
    return TraceFile(tmp_path / "trace.0.json")


class TestOperations:
    def test_a_kernel(self, trace):
        trace.launch(17, 100.25, name="cudaLaunchKernel_v7000")
        operations = read_traces([trace.write()]).operations
        assert tuple(operations.columns) == OPERATION_COLUMNS
        (kernel,) = operations.to_dict("records")
        assert (kernel["kind"], kernel["name"]) == ("kernel", "k")
        assert kernel["demangled"] == "void ns::k<float>(float*)"
        assert (kernel["start_ns"], kernel["end_ns"]) == (START_NS + 110_250, START_NS + 115_250)
        assert [kernel[c] for c in ("device", "context", "stream")] == [0, 1, 7]
        assert [kernel[f"grid_{axis}"] for axis in "xyz"] == [4096, 2, 1]
        assert [kernel[f"block_{axis}"] for axis in "xyz"] == [1024, 1, 1]
        assert (kernel["registers"], kernel["dynamic_shared_bytes"]) == (30, 128)
        assert kernel["process"] == PROCESS
        missing = ("static_shared_bytes", "copy_kind", "bytes", "graph_node")
        assert operations[list(missing)].isna().all(axis=None)

    def test_times_are_exact(self, trace):
        for number in range(1, 300):
            trace.kernel(number, number + 0.001 * number)
        starts = read_traces([trace.write()]).operations["start_ns"]
        assert (starts - START_NS).tolist() == [1001 * number for number in range(1, 300)]

    @pytest.mark.parametrize(
        ("written", "copy_kind"),
        [
            ("Memcpy HtoD (Pageable -> Device)", "Host-to-Device"),
            ("Memcpy DtoH (Device -> Pinned)", "Device-to-Host"),
            ("Memcpy DtoD (Device -> Device)", "Device-to-Device"),
            ("Memcpy <unknown> (Device -> Device)", "Unknown"),
        ],
    )
    def test_a_copy(self, trace, written, copy_kind):
        trace.copy(3, 5, written)
        (copy,) = read_traces([trace.write()]).operations.to_dict("records")
        assert (copy["kind"], copy["copy_kind"], copy["bytes"]) == ("memcpy", copy_kind, 4096)
        assert copy["name"] == copy["demangled"] == f"[CUDA memcpy {copy_kind}]"
        assert pd.isna(copy["grid_x"])

    def test_a_copy_between_devices(self, trace):
        place = {"device": None, "context": None, "inDevice": 1, "inContext": 2, "fromDevice": 0}
        trace.copy(3, 5, "Memcpy PtoP (Device -> Device)", **place)
        (copy,) = read_traces([trace.write()]).operations.to_dict("records")
        assert (copy["copy_kind"], copy["device"], copy["context"]) == ("Peer-to-Peer", 1, 2)

    def test_a_memset(self, trace):
        trace.copy(3, 5, "Memset (Device)")
        (memset,) = read_traces([trace.write()]).operations.to_dict("records")
        assert (memset["kind"], memset["name"], memset["bytes"]) == (
            "memset",
            "[CUDA memset]",
            4096,
        )
        assert pd.isna(memset["copy_kind"])

    def test_operators_are_no_operations_where_there_is_a_gpu(self, trace):
        trace.add("cpu_op", "aten::mm", 0, 20)
        trace.call(1, 5, name="cudaDeviceSynchronize")
        timeline = read_traces([trace.write()])
        assert timeline.operations.empty
        assert timeline.api["name"].tolist() == ["cudaDeviceSynchronize"]

    def test_a_field_that_is_no_whole_number_is_missing(self, trace):
        trace.kernel(1, 0, device="inf", stream=1.5, grid=[1, 2], **{"shared memory": 2**70})
        (kernel,) = read_traces([trace.write()]).operations.to_dict("records")
        found = [kernel[c] for c in ("device", "stream", "grid_x", "dynamic_shared_bytes")]
        assert all(pd.isna(value) for value in found)

    @pytest.mark.parametrize(
        ("demangled", "short"),
        [
            ("triton_poi_fused_relu_0", "triton_poi_fused_relu_0"),
            ("sm90_xmma_gemm_f32f32_tn_n__5x_cublas", "sm90_xmma_gemm_f32f32_tn_n__5x_cublas"),
            ("void (anonymous namespace)::softmax<float, (int)2>(float*, int)", "softmax"),
            (
                "void at::native::unrolled<at::native::CUDAFunctor_add<float>, std::array<char*, "
                "3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
                "unrolled",
            ),
            ("std::enable_if<!(false), void>::type ns::gemv<int, 1>(P<T>)", "gemv"),
            ("void k<f()::{lambda(float)#1}>(int) [clone .x]", "k"),
            ("", ""),
        ],
    )
    def test_short_names(self, demangled, short):
        assert short_name(demangled) == short


class TestRangesAndCalls:
    def test_ranges(self, trace):
        trace.range("cell=a..p0;block=0;arm=1", 0, 100)
        trace.range("launch=3", 0, 50)
        trace.range("forward", 1, 20)
        trace.range("launch=no", 30, 40)
        trace.add("gpu_user_annotation", "forward", 5, 60, pid=0, tid=7)
        ranges = read_traces([trace.write()]).ranges
        assert tuple(ranges.columns) == RANGE_COLUMNS
        assert ranges["name"].tolist() == [
            *("cell=a..p0;block=0;arm=1", "launch=3", "forward", "launch=no")
        ]
        assert ranges["domain"].tolist() == ["profiler", "profiler", "", ""]
        assert set(ranges["kind"]) == {"push_pop"}
        assert set(ranges["thread"]) == {(PROCESS << 24) + MAIN}
        assert set(ranges["process"]) == {PROCESS}
        assert not ranges["open"].any()
        assert ranges[["end_thread", "colour"]].isna().all(axis=None)

    def test_calls_of_runtime_and_driver(self, trace):
        trace.call(9, 30, name="cuLaunchKernel", tid=BACKWARD)
        trace.call(4, 20, name="cudaLaunchKernelExC_v11060")
        trace.call(0, 40, name="cudaStreamIsCapturing")
        api = read_traces([trace.write()]).api
        assert tuple(api.columns) == API_COLUMNS
        assert api["name"].tolist() == [
            *("cudaLaunchKernelExC", "cuLaunchKernel", "cudaStreamIsCapturing")
        ]
        assert api["correlation"].nunique() == 2
        assert pd.isna(api["correlation"][2])
        assert api["thread"].tolist()[:2] == [(PROCESS << 24) + t for t in (MAIN, BACKWARD)]

    def test_frames_have_the_types_of_an_export_of_nsys(self, trace):
        trace.range("forward", 0, 100)
        trace.launch(1, 5)
        trace.copy(2, 90, "Memset (Device)")
        traced = read_traces([trace.write()])
        exported = read_nsys(RECORDINGS / "nsys-2025.3/three_iterations.sqlite")
        for name in ("operations", "ranges", "api"):
            ours, theirs = getattr(traced, name), getattr(exported, name)
            assert ours.dtypes.map(str).to_dict() == theirs.dtypes.map(str).to_dict()
            assert ours.index.equals(pd.RangeIndex(len(ours)))


class TestAttribution:
    def test_kernels_find_their_launch_and_part(self, trace):
        trace.range("cell=a..p0;block=0", 0, 1000)
        for launch, start in enumerate((0, 400)):
            trace.range(f"launch={launch}", start + 1, start + 300)
            trace.range("forward", start + 10, start + 100)
            trace.launch(2 * launch + 1, start + 20)
            trace.range("backward", start + 110, start + 200)
            trace.launch(2 * launch + 2, start + 120, tid=BACKWARD)
        found = attribute(read_traces([trace.write()]))
        visit = "cell=a..p0;block=0"
        assert names_around(found) == [
            [visit, "launch=0", "forward"],
            [visit, "launch=0", "backward"],
            [visit, "launch=1", "forward"],
            [visit, "launch=1", "backward"],
        ]
        assert found.operations["by_time"].tolist() == [False, True, False, True]
        assert (found.operations["start_ns"] - found.operations["launch_ns"]).tolist() == [
            10_000
        ] * 4

    def test_kernels_of_a_graph_belong_to_its_launch(self, trace):
        trace.range("launch=0", 0, 50)
        trace.call(5, 10, name="cudaGraphLaunch")
        for node, start in enumerate((100, 110)):
            trace.kernel(5, start, **{"graph id": 2, "graph node id": 8_589_934_593 + node})
        found = attribute(read_traces([trace.write()]))
        assert found.operations["launch"].tolist() == [0, 0]
        assert found.operations["graph_node"].tolist() == [8_589_934_593, 8_589_934_594]
        assert names_around(found) == [["launch=0"], ["launch=0"]]


class TestSeveralFiles:
    def test_equal_correlations_of_two_files_stay_apart(self, tmp_path):
        paths = []
        for number in range(2):
            trace = TraceFile(tmp_path / f"trace.{number}.json.gz")
            trace.range(f"cell=c{number};block=0", 1000 * number, 1000 * number + 100)
            trace.launch(7, 1000 * number + 10)
            paths.append(trace.write())
        found = attribute(read_traces(paths[::-1]))
        assert names_around(found) == [["cell=c0;block=0"], ["cell=c1;block=0"]]
        assert found.operations["correlation"].nunique() == 2

    def test_times_follow_the_earliest_base(self, tmp_path):
        late = TraceFile(tmp_path / "late.json", base_ns=BASE_NS + 500)
        early = TraceFile(tmp_path / "early.json")
        for trace in (late, early):
            trace.launch(7, 10)
        timeline = read_traces([late.write(), early.write()])
        assert (timeline.operations["start_ns"] - START_NS).tolist() == [20_000, 20_500]

    def test_no_file_is_an_empty_timeline(self):
        timeline = read_traces([])
        assert tuple(timeline.operations.columns) == OPERATION_COLUMNS
        assert timeline.operations.empty
        assert timeline.ranges.empty
        assert attribute(timeline).stacks.empty

    def test_the_schema_is_kept(self, trace):
        timeline = read_traces([trace.write()])
        assert (timeline.nsys, timeline.schema) == (None, "1")


class TestPrivate:
    def test_nothing_private_gets_into_the_frames(self, trace):
        trace.range("load /home/somebody/secret/data.bin", 0, 100)
        trace.range(r"load C:\Users\somebody\secret\data.bin", 0, 100)
        trace.range("'/tmp/torchinductor_somebody/secret/ab.py' 1/10", 0, 100)
        trace.launch(1, 5, kernel_file="/home/somebody/secret/k.py")
        timeline = read_traces([trace.write()])
        texts = "".join(
            frame.to_csv() for frame in (timeline.operations, timeline.ranges, timeline.api)
        )
        for word in ("secret", "somebody", "home", "train.py", "NVIDIA"):
            assert word not in texts
        assert set(timeline.ranges["name"]) == {"load data.bin", "'ab.py' 1/10"}

    @pytest.mark.parametrize("name", ["forward/layer 1/mlp", "a / b", "1/2", "x = y/z (/s)"])
    def test_other_names_with_slashes_stay(self, trace, name):
        trace.range(name, 0, 1)
        assert read_traces([trace.write()]).ranges["name"].tolist() == [name]


class TestInvalidJson:
    """What torch itself writes and no parser of JSON takes."""

    @staticmethod
    def spoil(trace, old, new, fields_per_line):
        """Write a trace as kineto lays it out, with one text replaced by bytes as they are."""
        events = [json.dumps(e, indent=fields_per_line) for e in trace.events]
        head = '{"schemaVersion": 1,\n"traceEvents": [\n'
        data = (head + ",\n".join(events) + "\n]}").encode()
        assert old in data
        trace.path.write_bytes(data.replace(old, new))
        with pytest.raises(ValueError, match=r"delimiter|control character|decode"):
            json.loads(trace.path.read_bytes())
        return trace.path

    @pytest.mark.parametrize("fields_per_line", [None, 1])
    @pytest.mark.parametrize("name", ['say "x"', '"', 'x" ', '", "'])
    def test_quotes_in_names(self, trace, name, fields_per_line):
        trace.range("first", 0, 1)
        trace.range("QUOTED", 1, 9)
        trace.launch(1, 5)
        path = self.spoil(trace, b"QUOTED", name.encode(), fields_per_line)
        timeline = read_traces([path])
        assert timeline.ranges["name"].tolist() == ["first", name]
        assert names_around(attribute(timeline)) == [[name]]

    @pytest.mark.parametrize("garbage", [b"\x18\x02", b'"', b"\xff\xfe", b'", "a": [{"'])
    def test_garbage_in_a_stack(self, trace, garbage):
        for category, end in (("python_function", {"Ev Idx": 3}), ("cpu_op", {})):
            stack = {"Python id": 1, "Call stack": "a.py(1): GARBAGE;b.py(2): f", **end}
            trace.add(category, "aten::mm", 0, 5, **stack)
        path = self.spoil(trace, b"GARBAGE", garbage, 1)
        assert read_traces([path]).operations["name"].tolist() == ["aten::mm"]


STACKS = {"of the category python_function": 1}
"""What each trace here has, beside what a test adds."""


class TestBadFiles:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"", "no whole JSON"),
            (b"\x1f\x8b", "ended before"),
            (b"\x00\xff\xfe", "no whole JSON"),
            (b"[]", "no event of torch.profiler"),
            (b"3", "no list traceEvents"),
            (b'{"traceEvents": {}}', "no list traceEvents"),
            (b'{"traceEvents": []}', "no schemaVersion"),
            (b"[" * 100_000, "no whole JSON"),
            (b'{"schemaVersion": 1, "traceEvents": [' + b"1" * 5000 + b"]}", "no whole JSON"),
        ],
    )
    def test_what_is_no_trace_is_said(self, tmp_path, data, reason):
        path = tmp_path / "foreign.json"
        path.write_bytes(data)
        with pytest.raises(ParseError, match=rf"foreign\.json: not a trace .*{reason}") as caught:
            read_traces([path])
        assert str(tmp_path) not in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(ParseError, match=r"absent\.json: .*No such file") as caught:
            read_traces([tmp_path / "absent.json"])
        assert str(tmp_path) not in str(caught.value)

    @pytest.mark.parametrize("times", [{"ts": None}, {"dur": "two"}, {"dur": -1}, {"ts": 1e300}])
    def test_an_event_without_times_is_left_out_and_counted(self, trace, times):
        trace.kernel(1, 0)
        trace.events[-1] |= times
        trace.kernel(2, 10)
        timeline = read_traces([trace.write()])
        assert len(timeline.operations) == 1
        assert timeline.unread == {"kernel without times": 1, **STACKS}

    def test_what_is_no_event_is_left_out_and_counted(self, trace):
        trace.kernel(1, 0)
        trace.events += [3, None]
        trace.add("cuda_sync", "Event Sync", 3, 9)
        trace.events += [
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 1, "args": {}},
            {"ph": "i", "name": "Record Window End", "ts": 1},
            {"ph": "C", "name": "clock", "ts": 1, "args": {"MHz": 1800}},
        ]
        timeline = read_traces([trace.write()])
        assert len(timeline.operations) == 1
        assert timeline.unread == {
            "no event": 2,
            "of the category cuda_sync": 1,
            "of the category cpu_instant_event": 1,
            "value of a counter": 1,
            **STACKS,
        }

    @pytest.mark.parametrize("base", ["now", -1, 10**19, 1.5])
    def test_a_base_that_is_no_time(self, trace, base):
        with pytest.raises(ParseError, match="baseTimeNanoseconds"):
            read_traces([trace.write(baseTimeNanoseconds=base)])

    def test_a_number_that_is_none(self, trace):
        trace.kernel(1, 0, stream=float("nan"))
        trace.events[-1]["ts"] = float("nan")
        assert read_traces([trace.write()]).unread == {"kernel without times": 1, **STACKS}

    def test_a_trace_that_is_cut_anywhere_is_said(self, tmp_path):
        trace = TraceFile(tmp_path / "trace.0.json.gz")
        for number in range(1, 40):
            trace.launch(number, 20 * number)
        data = trace.write().read_bytes()
        plain = gzip.decompress(data)
        draw = random.Random(5)  # noqa: S311 - not for secrets
        for whole in (data, plain):
            for _ in range(60):
                trace.path.write_bytes(whole[: draw.randrange(len(whole) - 1)])
                with pytest.raises(ParseError, match=r"trace\.0\.json\.gz: not a trace"):
                    read_traces([trace.path])

    def test_an_export_of_nsys_is_no_trace(self, tmp_path):
        path = tmp_path / "timeline.sqlite"
        ExportFile(path)
        with pytest.raises(ParseError, match=r"timeline\.sqlite: not a trace"):
            read_traces([path])


class TestOperatorsOfACpu:
    def test_only_outermost_operators_count_and_each_thread_has_its_own(self, trace):
        trace.add("cpu_op", "aten::mm", 2, 8)
        trace.add("cpu_op", "aten::matmul", 0, 10)
        trace.add("cpu_op", "aten::relu", 10, 11)
        trace.add("cpu_op", "MmBackward0", 5, 20, tid=BACKWARD)
        trace.add("cpu_op", "aten::mm", 5, 20, tid=BACKWARD)
        trace.range("forward", 0, 30)
        timeline = read_traces([trace.write()])
        assert timeline.operations["name"].tolist() == ["aten::matmul", "MmBackward0", "aten::relu"]
        assert set(timeline.operations["kind"]) == {"cpu_op"}
        assert timeline.api["name"].tolist() == timeline.operations["name"].tolist()
        assert names_around(attribute(timeline)) == [["forward"]] * 3

    def test_operators_of_two_files_stay_apart(self, tmp_path):
        paths = []
        for number in range(2):
            trace = TraceFile(tmp_path / f"trace.{number}.json")
            trace.range(f"cell=c{number};block=0", 100 * number, 100 * number + 90)
            trace.add("cpu_op", "aten::mm", 100 * number + 10, 100 * number + 20)
            paths.append(trace.write())
        found = attribute(read_traces(paths))
        assert names_around(found) == [["cell=c0;block=0"], ["cell=c1;block=0"]]


class TestLiveOnCpu:
    """What torch writes on this machine."""

    @pytest.fixture
    def recorded(self, tmp_path):
        torch = pytest.importorskip("torch")
        from torch.profiler import ProfilerActivity, profile

        def record(work):
            path = tmp_path / "live.json"
            with profile(activities=[ProfilerActivity.CPU], with_stack=True) as seen:
                work(torch)
            seen.export_chrome_trace(str(path))
            return path

        return record

    def test_outermost_operators_are_found_in_their_ranges(self, recorded):
        from torch.profiler import record_function

        def work(torch):
            x = torch.ones(16, 16, requires_grad=True)
            with record_function("forward"):
                y = torch.softmax(x, 1).sum()
            with record_function("backward"):
                y.backward()

        found = attribute(read_traces([recorded(work)]))
        operations = found.operations.assign(path=names_around(found))
        assert set(operations["kind"]) == {"cpu_op"}
        forward = operations[operations["path"].map(lambda path: path == ["forward"])]
        assert forward["name"].tolist() == ["aten::softmax", "aten::sum"]
        backward = operations[operations["path"].map(lambda path: path == ["backward"])]
        assert "autograd::engine::evaluate_function: SoftmaxBackward0" in set(backward["name"])
        assert (operations["end_ns"] > operations["start_ns"]).all()
        assert operations[["device", "stream", "grid_x"]].isna().all(axis=None)
        assert found.api["correlation"].is_unique

    def test_a_range_with_quotes_is_read_from_what_torch_writes(self, recorded):
        from torch.profiler import record_function

        def work(torch):
            with record_function('say "x", twice'):
                torch.ones(4).sum()

        found = attribute(read_traces([recorded(work)]))
        assert names_around(found) == [['say "x", twice']] * 2

    def test_the_path_of_this_file_is_in_the_trace_and_not_in_the_frames(self, recorded):
        path = recorded(lambda torch: torch.ones(4).sum())
        assert "test_chrome_trace.py" in path.read_text()
        timeline = read_traces([path])
        for frame in (timeline.operations, timeline.ranges, timeline.api):
            assert "test_chrome_trace" not in frame.to_csv()


class TestOtherTraces:
    """What older versions, other accelerators and other writers make."""

    def write(self, tmp_path, events, **header):
        path = tmp_path / "other.json"
        path.write_text(json.dumps({"traceEvents": events, **header} if header else events))
        return path

    def event(self, category, name, ts, dur, pid=50, **facts):
        event = {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur}
        return event | {"pid": pid, "tid": pid, "args": facts}

    def test_categories_with_capitals(self, tmp_path):
        """Kineto up to torch 1.11."""
        path = self.write(
            tmp_path,
            [
                self.event("Operator", "aten::mm", 100, 30),
                self.event("Runtime", "cudaLaunchKernel", 110, 5, correlation=41),
                self.event("Kernel", "void gemm<float>(float*)", 120, 40, pid=0, correlation=41),
                self.event("Memcpy", "Memcpy HtoD (Pageable -> Device)", 105, 4, pid=0),
                self.event("Memset", "Memset (Device)", 200, 2, pid=0),
            ],
            schemaVersion=1,
        )
        timeline = read_traces([path])
        assert timeline.operations["name"].tolist() == [
            "[CUDA memcpy Host-to-Device]",
            "gemm",
            "[CUDA memset]",
        ]
        assert timeline.api["name"].tolist() == ["cudaLaunchKernel"]
        assert not timeline.unread

    def test_calls_of_another_accelerator(self, tmp_path):
        path = self.write(
            tmp_path,
            [
                self.event("user_annotation", "step", 100, 100),
                self.event("xpu_runtime", "urEnqueueKernelLaunch", 115, 5, correlation=41),
                self.event("kernel", "gemm_kernel", 150, 30, pid=0, correlation=41),
                self.event("mtia_counters", "queue", 150, 30, pid=0),
            ],
            schemaVersion=1,
        )
        timeline = read_traces([path])
        found = attribute(timeline)
        assert names_around(found) == [["step"]]
        assert found.operations["launch_ns"].tolist() == [115_000]
        assert timeline.unread == {"of the category mtia_counters": 1}

    def test_a_bare_list_of_events(self, tmp_path):
        path = self.write(tmp_path, [self.event("kernel", "k(int)", 10, 5, pid=0)])
        assert read_traces([path]).operations["name"].tolist() == ["k"]
