"""Shares of the hardware's roofs that plain kernels reached, from rows of ncu."""

import pandas as pd
import pytest

from profiler.analyse.samples import roof_launches_of_journal
from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.analyse.why.roofs import practical_shares, roofs, roofs_countable
from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.passes import counter_sessions, timing_metrics
from profiler.metrics.queries import expand, ncu_names, without_other_types
from profiler.parse.nvtx_cells import NvtxRange

COPY = {
    "dram__bytes_read.sum": 1.0e9,
    "dram__bytes_write.sum": 1.0e9,
    "dram__bytes.sum": 2.0e9,
    "dram__bytes.sum.peak_sustained": 1504.0,
    "dram__cycles_elapsed.avg.per_second": 3.2e9,
}
PEAK = 1504.0 * 3.2e9


def row(name, duration_ns, **changes):
    ranges = (NvtxRange("profiler", name, "push/pop", "1"),)
    duration = {"gpu__time_duration.sum": duration_ns}
    return {"kernel": "neg", "nvtx": ranges, **duration, **COPY, **changes}


def test_the_best_launch_of_a_finished_roof_counts():
    rows = [
        row("roof=dram;launch=0", 500_000.0),
        row("roof=dram;launch=1", 480_000.0),
        row("cell=a..p;block=0", 100_000.0),
        row("roof=fp32;launch=0", 100_000.0),
    ]
    shares = practical_shares(pd.DataFrame(rows), ["dram", "fp32"], "9.0")
    assert shares == {"dram": pytest.approx(2.0e9 / 480e-6 / PEAK)}
    assert practical_shares(pd.DataFrame(rows), [], "9.0") == {}


def test_what_the_runner_counted_itself_is_as_what_ncu_counted():
    kernels = [
        {"kernel": "neg", "launch": number, "gpu__time_duration.sum": time, **COPY}
        for number, time in enumerate((500_000.0, 480_000.0))
    ]
    records = [
        {"event": "roof_finished", "roof": "dram", "launches": 2, "kernels": kernels},
        {"event": "roof_finished", "roof": "fp32", "launches": 2},
    ]
    shares = practical_shares(roof_launches_of_journal(records), ["dram", "fp32"], "9.0")
    assert shares == {"dram": pytest.approx(2.0e9 / 480e-6 / PEAK)}
    assert practical_shares(roof_launches_of_journal(records[1:]), ["fp32"], "9.0") == {}


def test_a_product_of_torch_tells_a_roof_by_the_first_part_of_its_operations():
    part, *others = CATALOGUE["tensor_fp16_ops"].parts
    beside = ("duration_ns", "tensor_fp16_peak", "sm_clock_hz")
    assert roofs_countable((*beside, part)) == ("tensor_fp16",)
    assert roofs_countable((*beside, *others)) == ()
    counted = {
        "sm__ops_path_tensor_op_hgmma_src_fp16.sum": 8e8,
        "sm__ops_path_tensor_src_fp16.sum.peak_sustained": 2e6,  # sparse
        "sm__cycles_elapsed.avg.per_second": 1e9,
    }
    rows = [row("roof=tensor_fp16;launch=0", 1000.0, **counted)]
    shares = practical_shares(pd.DataFrame(rows), ["tensor_fp16"], "9.0")
    assert shares == {"tensor_fp16": pytest.approx(0.8)}


def test_a_kernel_has_its_share_of_the_practical_roof_beside_that_of_the_hardware():
    profile = KernelProfile("kernel", {**COPY, "gpu__time_duration.sum": 500_000.0})
    (roof,) = roofs(profile, "9.0", {"dram": 0.9})
    assert roof.practical_share == pytest.approx(roof.share / 0.9)
    (bare,) = roofs(profile, "9.0")
    assert bare.practical_share != bare.practical_share, "missing is NaN"


def test_a_session_tells_the_roofs_of_which_it_has_every_counter():
    names = without_other_types(expand(["roofline"]), ["bf16"])
    timing = timing_metrics(names, with_cycles=True)
    (session,) = counter_sessions(names, {("bf16",): 1})
    counters = session.metrics
    assert roofs_countable(counters) == ("dram", "tensor_bf16", "fp32")
    assert roofs_countable(timing) == ()
    assert set(COPY) - {"dram__bytes.sum"} <= set(ncu_names(counters, "9.0"))
