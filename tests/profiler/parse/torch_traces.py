"""Chrome traces as torch.profiler writes them on a GPU, made in a test."""

import gzip
import json

PROCESS = 4321
MAIN, BACKWARD = 4321, 4388
BASE_NS = 1_790_857_026_000_000_000
START_US = 4_439_576_510_000.0


class TraceFile:
    """A trace under construction; times are microseconds after START_US."""

    def __init__(self, path, *, base_ns=BASE_NS):
        self.path = path
        self.base_ns = base_ns
        self.events = [
            {
                "ph": "M",
                "name": "process_name",
                "ts": START_US,
                "pid": PROCESS,
                "tid": 0,
                "args": {"name": "python"},
            },
            {
                "ph": "X",
                "cat": "Trace",
                "name": "PyTorch Profiler (0)",
                "pid": "Spans",
                "tid": "PyTorch Profiler",
                "ts": START_US,
                "dur": 9999.5,
                "args": {"Op count": 0},
            },
            {
                "ph": "X",
                "cat": "python_function",
                "name": "/home/somebody/secret/train.py(11): <module>",
                "pid": PROCESS,
                "tid": MAIN,
                "ts": START_US,
                "dur": 9999.5,
                "args": {"Python parent id": None, "Python id": 1, "Ev Idx": 98},
            },
        ]

    def add(self, category, name, start, end, *, pid=PROCESS, tid=MAIN, **facts):
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": round(START_US + start, 3),
                "dur": round(end - start, 3),
                "args": facts,
            }
        )

    def range(self, name, start, end, **place):
        self.add("user_annotation", name, start, end, **{"External id": 1}, **place)

    def launch(self, correlation, start, *, name="cudaLaunchKernel", tid=MAIN, **kernel):
        """A call of 2 us, and its kernel of 5 us that starts 10 us after it."""
        self.call(correlation, start, name=name, tid=tid)
        self.kernel(correlation, start + 10, **kernel)

    def call(self, correlation, start, *, name="cudaLaunchKernel", tid=MAIN):
        category = "cuda_runtime" if name.startswith("cuda") else "cuda_driver"
        facts = {"External id": 3, "cbid": 211, "correlation": correlation}
        self.add(category, name, start, start + 2, tid=tid, **facts)

    def kernel(self, correlation, start, name="void ns::k<float>(float*)", **facts):
        usual = {
            "External id": 3,
            "queued": 0,
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": correlation,
            "registers per thread": 30,
            "shared memory": 128,
            "blocks per SM": 31.030303,
            "warps per SM": "inf",
            "grid": [4096, 2, 1],
            "block": [1024, 1, 1],
            "est. achieved occupancy %": 100,
            "graph id": 0,
            "graph node id": 0,
        }
        self.add("kernel", name, start, start + 5, pid=0, tid=7, **{**usual, **facts})

    def copy(self, correlation, start, name, **facts):
        usual = {
            "External id": 3,
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": correlation,
            "bytes": 4096,
            "memory bandwidth (GB/s)": 1.5,
        }
        category = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
        self.add(category, name, start, start + 1, pid=0, tid=7, **{**usual, **facts})

    def write(self, **changes):
        content = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
            "with_stack": 1,
            "host_name": "secret-host",
            "traceEvents": self.events,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": self.base_ns,
            "traceName": "/home/somebody/secret/trace.json",
        }
        data = json.dumps({**content, **changes}).encode()
        self.path.write_bytes(gzip.compress(data) if self.path.suffix == ".gz" else data)
        return self.path
