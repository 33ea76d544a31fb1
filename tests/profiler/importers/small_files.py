"""Small files of every format that is imported, as lists of lines, and records that are none."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass

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
    below_zero: tuple[str, ...] = ()
    """The record of KERNELS[1], whose time is below zero."""
    tail: tuple[str, ...] = ()
    between: str = "\n"
    foreign: tuple[str, ...] | None = None
    """A record of a kind that nobody knows; None where there are no kinds."""
    prefixed: bool = False
    """Whether other programs write their words before each line."""
    file: str = "given.txt"

    @property
    def is_json(self):
        """Whether a whole file is one document of JSON."""
        return self.text().startswith(("{", "["))

    def text(self, *records):
        """A whole file with these records."""
        lines = [*self.head, *(self._body(records)), *self.tail]
        return "\n".join(lines) + "\n"

    def _body(self, records):
        joined = self.between.join("\n".join(record) for record in records)
        return joined.split("\n") if joined else []


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells)


def raw_row(number, value):
    return quoted([str(number), *LAUNCH, KERNELS[number], "1", "7", value])


def details_row(number, value, metric=TIME, unit="ns"):
    cells = [str(number), *LAUNCH, KERNELS[number], "1", "7"]
    return quoted([*cells, "Command line profiler metrics", metric, unit, value])


def text_launch(number, value):
    return (
        f"  {KERNELS[number]} (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0",
        "    Section: GPU Speed Of Light Throughput",
        "    ----------------------- ----------- ------------",
        "    Metric Name             Metric Unit Metric Value",
        "    ----------------------- ----------- ------------",
        f"    Duration                         us {value:>12}",
        "    ----------------------- ----------- ------------",
    )


def event(number, **changes):
    facts = {"correlation": number, "device": 0, "stream": 7, "context": 1}
    start = 1000 * number
    fields = {"ph": "X", "cat": "kernel", "name": KERNELS[number], "ts": start, "args": facts}
    return json.dumps({**fields, "dur": NS[number] / 1000, "pid": 0, "tid": 7, **changes})


def tried(number, time):
    shown = f"XBLOCK: {2**number}, num_warps: 4, num_ctas: 1, num_stages: 1"
    return (
        f"Benchmark all input configs for triton_{number}, get:",
        f"{shown}: {time}, nreg 32, nspill 0, #shared-mem 64",
        f"Best config for triton_{number}: {shown}: {time}, nreg 32, nspill 0, #shared-mem 64",
    )


def choices(number, time):
    return (
        f"AUTOTUNE mm_{number}(4x4, 4x4)",
        f"  triton_mm_{number} {time} ms 100.0% BLOCK_K={2**number}, num_warps=4",
    )


def sum_row(number):
    numbers = [
        "10.0",
        f"{NS[number]}",
        "1",
        *[f"{NS[number]}.0"] * 2,
        *[f"{NS[number]}"] * 2,
        "0.0",
    ]
    return ",".join([*numbers, f'"{KERNELS[number]}"'])


def sum_in_json(row):
    *numbers, name = next(csv.reader([row]))
    cells = [*map(float, numbers), name]
    return json.dumps(dict(zip([*SUMS, "StdDev (ns)", "Name"], cells, strict=True)))


def in_columns(number):
    ns = f"{NS[number]:,}"
    four = "".join(f"  {ns:>8}" for _ in range(4))
    return f"     10.0  {ns:>15}          1{four}          0.0  {KERNELS[number]}"


def source_page(number):
    return (
        quoted(["Kernel Name", KERNELS[number]]) + ",",
        quoted(["Address", "Source", *SAMPLES, "Instructions Executed"]),
        quoted([f"0x{number + 1}0", "FADD R1, R1, R2", *[str(NS[number])] * 3, "10"]),
    )


def launched(number, start):
    sizes = "64,1,1,256,1,1,32,0.000,0.000,,,,"
    return f'{start},{NS[number]},{number},{sizes},NVIDIA H100 (0),1,,7,"{KERNELS[number]}"'


def cached(number, time):
    entry = {"block": 2**number, "tile": 1, "time": time, "compile_time": 431.2}
    return (f'"{2**number},1": {json.dumps(entry)}',)


def in_ms(number):
    return f"{NS[number] / 1e6:.6f}"


def in_ps(number):
    """Another unit than the base unit: that it was read shows."""
    return f"{1000 * NS[number]:,}"


def with_separators(number):
    return f"{NS[number]:,}"


def result_of(number, time_ms, invalidity="correct"):
    configuration = {"block": 2**number, "tile": 1}
    times = {"compilation": 20.5, "runtimes": [time_ms] * 3}
    facts = {"configuration": configuration, "times": times, "invalidity": invalidity}
    return (json.dumps(facts),)


EACH = range(len(KERNELS))
RAW_HEAD = (quoted([*HEAD, TIME]), quoted([*[""] * len(HEAD), "ps"]))
OF_PANDAS = (",".join(["", *HEAD[:6], "Stream", TIME]), ",".join([*[""] * 9, "ns"]))
SUMS = (
    "Time (%)",
    "Total Time (ns)",
    "Instances",
    *(f"{n} (ns)" for n in ("Avg", "Med", "Min", "Max")),
)
SAMPLES = (
    *("Warp Stall Sampling (All Samples)", "Warp Stall Sampling (Not-issued Samples)"),
    "# Samples",
)
IN_COLUMNS = (
    " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):",
    "",
    " Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  "
    "Name",
    " --------  ---------------  ---------  --------  --------  --------  --------  -----------  "
    "----",
)
TRACE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
    "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)
CACHE = (
    '{"device_name": "A100", "kernel_name": "add", "problem_size": "[1]", "objective": "time",',
    '"tune_params_keys": ["block", "tile"], "tune_params": {"block": [1, 2, 4], "tile": [1]},',
    '"cache": {',
)
FORMATS = (
    Format(
        "raw page of ncu",
        RAW_HEAD,
        tuple((raw_row(n, in_ps(n)),) for n in EACH),
        bad=('"1","17","app"',),
        below_zero=(raw_row(1, "-22,500"),),
        prefixed=True,
    ),
    Format(
        "raw page through pandas",
        OF_PANDAS,
        tuple(
            (f'{n + 1},{n}.0,17.0,app,127.0.0.1,"{KERNELS[n]}",1.0,7.0,{NS[n]}.0',) for n in EACH
        ),
        bad=("9,x,17.0,app,127.0.0.1,k,1.0,7.0,5.0",),
        below_zero=(f"2,1.0,17.0,app,127.0.0.1,{KERNELS[1]},1.0,7.0,-22500.0",),
    ),
    Format(
        "report of ncu",
        RAW_HEAD,
        tuple((raw_row(n, in_ps(n)),) for n in EACH),
        bad=('"1","17","app"',),
        below_zero=(raw_row(1, "-22,500"),),
        file="given.ncu-rep",
    ),
    Format(
        "details page of ncu",
        (quoted(DETAIL_HEAD),),
        tuple((details_row(n, with_separators(n)),) for n in EACH),
        bad=('"1","17","app"',),
        below_zero=(details_row(1, "-22,500"),),
        prefixed=True,
        foreign=(details_row(0, "3", "a new metric", "furlong"),),
    ),
    Format(
        "text of ncu",
        ("==PROF== Connected to process 17 (/x/app)", "[17] app@127.0.0.1"),
        tuple(text_launch(n, f"{NS[n] / 1000:.2f}") for n in EACH),
        bad=(*text_launch(1, "1.00")[:1],),
        below_zero=text_launch(1, "-22.50"),
        prefixed=True,
    ),
    Format(
        "source page of ncu",
        (),
        tuple(source_page(n) for n in EACH),
        bad=(*source_page(0)[:2], '"0x99","FADD R1'),
        below_zero=tuple(line.replace('"22500"', '"-5"') for line in source_page(1)),
    ),
    Format(
        "sums of nsys",
        (",".join([*SUMS, "StdDev (ns)", "Name"]),),
        tuple((sum_row(n),) for n in EACH),
        bad=("10.0,many,1,2,3,4,5,6,k",),
        below_zero=(sum_row(1).replace("22500", "-22500"),),
        foreign=("", "Total (MB),Count,quantum_kernel (MB),Operation", "1,2,3,x"),
    ),
    Format(
        "sums of nsys in columns",
        IN_COLUMNS,
        tuple((in_columns(n),) for n in EACH),
        bad=("     10.0             many          1",),
        below_zero=(in_columns(1).replace(" 22,500", "-22,500"),),
        foreign=(
            "",
            " ** Other (quantum_kernel_sum):",
            "",
            " Total (MB)  Count  Avg (MB)  Operation",
            " ----------  -----  --------  ---------",
            "        1.0      1       1.0  x",
        ),
    ),
    Format(
        "sums of nsys in JSON",
        ("[",),
        tuple((sum_in_json(sum_row(n)),) for n in EACH),
        bad=(sum_in_json(sum_row(1)).replace("22500", "many"),),
        below_zero=(sum_in_json(sum_row(1)).replace("22500", "-22500"),),
        tail=("]",),
        between=",\n",
        foreign=("]", '[{"Total (MB)": 1, "quantum_kernel (MB)": 2, "Operation": "x"}'),
    ),
    Format(
        "trace of nsys",
        (TRACE,),
        tuple((launched(n, f"{10**6 * n}"),) for n in EACH),
        bad=(launched(1, "soon"),),
        below_zero=(launched(1, "1000000").replace(",22500,", ",-22500,"),),
    ),
    Format(
        "trace of torch",
        ('{"schemaVersion": 1, "traceEvents": [',),
        tuple((event(n),) for n in EACH),
        bad=(event(1, dur=-5.0),),
        below_zero=(event(1, dur=-5.0),),
        tail=("]}",),
        between=",\n",
        foreign=(event(1, cat="quantum_kernel"),),
    ),
    Format(
        "trace without a header",
        ("[",),
        tuple((event(n),) for n in EACH),
        bad=(event(1, ts="soon"),),
        below_zero=(event(1, dur=-5.0),),
        tail=("]",),
        between=",\n",
        foreign=(event(1, cat="quantum_kernel"),),
    ),
    Format(
        "log of inductor's kernels",
        (),
        tuple(tried(n, in_ms(n)) for n in EACH),
        bad=("XBLOCK: 1, num_warps: many: soon, nreg 32",),
        below_zero=tried(1, "-0.0225"),
        prefixed=True,
    ),
    Format(
        "log of inductor's choices",
        (),
        tuple(choices(n, in_ms(n)) for n in EACH),
        bad=("  triton_mm_9 soon ms 100.0%",),
        below_zero=choices(1, "-0.0225"),
        prefixed=True,
    ),
)
FORMATS += (
    Format(
        "cache of kernel_tuner",
        CACHE,
        tuple(cached(n, NS[n] / 1e6) for n in EACH),
        bad=cached(3, None),
        below_zero=cached(1, -0.0225),
        tail=("}}",),
        between=",\n",
        foreign=cached(3, "quantum_kernel"),
    ),
    Format(
        "results of T4",
        ('{"schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": [',),
        tuple(result_of(n, NS[n] / 1e6) for n in EACH),
        bad=result_of(3, "soon"),
        below_zero=result_of(1, -0.0225),
        tail=("]}",),
        between=",\n",
        foreign=result_of(3, 1.0, "quantum_kernel"),
    ),
)
