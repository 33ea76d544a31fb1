"""Derived metrics, and facts of the build and of the runner: the catalogue says how, once."""

import dataclasses
import sys
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from analyse_frames import launch, make_cell, ours, samples_of
from cell_statuses import status_of

from profiler.analyse.metric_values import (
    add_build_facts,
    add_derived,
    add_status_facts,
    add_sums_of_parts,
)
from profiler.analyse.samples import SampleOrigin, missing_metrics, samples_from_launches
from profiler.analyse.summary import summarise
from profiler.metrics import passes
from profiler.metrics.catalogue import CATALOGUE, Combine, Metric, PassClass
from profiler.metrics.formulas import cell_fact, gpu_fact, metric
from profiler.model import BuildResult, CellFacts, CellStatus, Environment, KernelFacts, Outcome

SESSION = {"session": "timing-0", "collector": "ncu", "kind": "timing"}


def _samples(launches, metrics=("duration_ns",)):
    return samples_from_launches(pd.DataFrame(launches), SampleOrigin(**SESSION, metrics=metrics))


# ---- an entry is enough --------------------------------------------------------------------------


def _entry(name, formula):
    return Metric(
        name,
        name,
        "GHz",
        PassClass.DERIVED,
        "New.",
        source="derived",
        better="higher",
        formula=formula,
    )


def _extend(monkeypatch, *entries):
    """Make every module that holds the catalogue see it with these entries at its end."""
    extended = MappingProxyType({**CATALOGUE, **{entry.name: entry for entry in entries}})
    for name, module in list(sys.modules.items()):
        if name.startswith("profiler.") and getattr(module, "CATALOGUE", None) is CATALOGUE:
            monkeypatch.setattr(module, "CATALOGUE", extended)


def test_a_new_derived_entry_has_its_numbers_in_samples_and_summary(monkeypatch):
    clock = _entry("clock_of_peak", metric("cycles") / metric("duration_ns") / gpu_fact("sm_count"))
    twice = _entry("twice_of_peak", 2 * metric("clock_of_peak") + cell_fact("flops") - 1)
    _extend(monkeypatch, clock, twice)
    samples = samples_of({"a..p": [100.0, 200.0, 400.0], "b..p": [100.0] * 3})
    samples["cycles"] = [800.0, 800.0, np.nan, *[800.0] * 3]
    statuses = {"a..p": status_of("a..p", flops=7.0)}
    derived = add_derived(samples, statuses, Environment(sm_count=4))
    nan = pytest.approx(np.nan, nan_ok=True)
    assert list(derived["clock_of_peak"]) == [2.0, 1.0, nan, 2.0, 2.0, 2.0]
    assert list(derived["twice_of_peak"]) == [10.0, 8.0, nan, nan, nan, nan]
    assert missing_metrics(derived, ["twice_of_peak"]) == {"b..p": ("twice_of_peak",)}
    summary = summarise(derived, cells=[make_cell("a"), make_cell("b")])
    rows = summary[summary["metric"] == "clock_of_peak"].set_index("cell")
    assert rows["median"].to_dict() == {"a..p": 1.5, "b..p": 2.0}
    assert rows["rank"].to_dict() == {"a..p": 2.0, "b..p": 1.0}


def test_what_a_new_derived_entry_needs_is_collected_with_it(monkeypatch):
    first = _entry("first", metric("instructions") / metric("cycles"))
    _extend(monkeypatch, first, _entry("second", metric("first") / metric("l2_bytes")))
    assert passes.timing_metrics(["second"], with_cycles=True) == ("duration_ns", "cycles")
    (session,) = passes.counter_sessions(["second"], {(): 1})
    assert set(session.metrics) == {"duration_ns", "instructions", "l2_bytes"}


def test_what_three_sessions_counted_in_parts_is_one_number_beside_the_first_of_them():
    parts = CATALOGUE["tensor_fp16_ops"].parts
    frames = [
        samples_of({"a..p": [2.0e9, 4.0e9], "b..p": [8.0e9]}, part, kind="counters").assign(
            session=part, duration_ns=1e6, tensor_fp16_peak=1e6, sm_clock_hz=2e9
        )
        for part in parts
    ]
    frames[2] = frames[2][frames[2]["cell"] == "a..p"]
    samples = add_sums_of_parts(pd.concat(frames, ignore_index=True))
    first = samples["session"] == parts[0]
    assert samples.loc[first, "tensor_fp16_ops"].fillna(-1).tolist() == [6.0e9, 12.0e9, -1.0]
    assert samples.loc[~first, "tensor_fp16_ops"].isna().all()
    derived = add_derived(samples, {}, Environment())
    assert derived.loc[first, "roof_tensor_fp16_pct"].tolist()[:2] == pytest.approx([0.3, 0.6])
    counted_whole = samples_of({"a..p": [5.0]}, "tensor_fp16_ops", kind="counters")
    both = add_sums_of_parts(pd.concat([counted_whole, *frames], ignore_index=True))
    assert both["tensor_fp16_ops"].iloc[0] == 5.0
    assert "tensor_fp16_ops" not in add_sums_of_parts(frames[0])


def test_every_derived_entry_has_a_formula_and_no_other_has_one():
    for entry in CATALOGUE.values():
        assert (entry.formula is not None) == (entry.source == "derived"), entry.name
        assert (entry.pass_class is PassClass.DERIVED) == (entry.source == "derived"), entry.name


def test_every_part_of_a_formula_exists_and_stands_before_it():
    fields = {
        "cell": {field.name for field in dataclasses.fields(CellFacts)},
        "gpu": {field.name for field in dataclasses.fields(Environment)},
    }
    before = set()
    for name, entry in CATALOGUE.items():
        if entry.formula is not None:
            parts = list(entry.formula.quantities())
            assert parts, f"{name}: a constant"
            for part in parts:
                assert part.name in fields.get(part.origin, before), f"{name}: {part}"
        before.add(name)


def test_every_metric_of_build_and_runner_names_the_field_of_its_value():
    of_status = {field.name for field in dataclasses.fields(CellFacts)}
    of_kernel = {field.name for field in dataclasses.fields(KernelFacts)}
    for entry in CATALOGUE.values():
        if entry.source in ("ptxas", "runner"):
            assert entry.fact, entry.name
        if entry.fact:
            fields = of_status if entry.source == "runner" else of_kernel
            assert entry.fact in fields, entry.name
            kernels_combine = entry.combine in (Combine.MAX, Combine.MIN)
            assert kernels_combine or entry.source == "runner", entry.name


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (metric("a") / (metric("b") + cell_fact("flops")), "a ÷ (b + cell.flops)"),
        (100 * (metric("a") / metric("b")), "100 · (a ÷ b)"),
        (metric("a") / metric("b") / 1e3 - gpu_fact("sm_count"), "a ÷ b ÷ 1,000 - gpu.sm_count"),
        (metric("a") - (metric("b") - 0.5), "a - (b - 0.5)"),
        (2 * metric("a"), "2 · a"),
    ],
)
def test_a_formula_is_written_with_the_brackets_that_it_needs(formula, text):
    assert str(formula) == text


# ---- values --------------------------------------------------------------------------------------


def _derived(status, environment, **raw):
    metrics = ("duration_ns", "cycles", "dram_read_bytes", "dram_write_bytes")
    samples = _samples([launch(ours("a", 0), **raw)], metrics)
    return add_derived(samples, {"a": status}, environment).iloc[0]


def test_derived_metrics_follow_from_time_traffic_and_statements():
    raw = launch(
        ours("a", 0), gpu__time_duration=1000.0, dram__bytes_read=3e6, dram__bytes_write=1e6
    ) | {"sm__cycles_elapsed.max": 1500.0}
    samples = _samples([raw], ("duration_ns", "cycles", "dram_read_bytes", "dram_write_bytes"))
    status = status_of("a", flops=2e9, bytes=2e6)
    environment = Environment(peak_dram_bytes_per_s=8e12)
    row = add_derived(samples, {"a": status}, environment).iloc[0]
    assert row["tflops"] == pytest.approx(2000.0)
    assert row["gbps"] == pytest.approx(2000.0)
    assert row["dram_gbps"] == pytest.approx(4000.0)
    assert row["peak_dram_pct"] == pytest.approx(50.0)
    assert row["memory_efficiency_pct"] == pytest.approx(50.0)
    assert row["arithmetic_intensity"] == pytest.approx(500.0)
    assert row["sm_clock_ghz"] == pytest.approx(1.5)


def test_what_nothing_is_known_for_is_not_derived():
    status = CellStatus("a", Outcome.MEASURED)
    row = _derived(status, Environment(), gpu__time_duration=10.0)
    assert not {"tflops", "gbps", "dram_gbps", "peak_dram_pct"} & set(row.index)


def test_nothing_is_divided_by_zero():
    status = status_of("a", flops=1.0, bytes=1.0)
    row = _derived(status, Environment(), dram__bytes_read=0.0, dram__bytes_write=0.0)
    assert not {"memory_efficiency_pct", "arithmetic_intensity"} & set(row.index)


def test_cells_without_a_status_have_no_derived_metrics():
    samples = _samples([launch(ours("a", 0), gpu__time_duration=1.0)])
    assert "tflops" not in add_derived(samples, {}, Environment()).columns


def _counted(session, *visits, kind="counters", **raw):
    """Samples of one session with `l2_hit_sectors` or `l2_bytes`."""
    launches = [launch(ours(*visit), gpu__time_duration=1.0, **raw) for visit in visits]
    metrics = ("l2_hit_sectors",) if "lts__t_sectors_lookup_hit" in raw else ("l2_bytes",)
    facts = SESSION | {"session": session, "kind": kind}
    return samples_from_launches(pd.DataFrame(launches), SampleOrigin(**facts, metrics=metrics))


def _hit_rates(*frames):
    samples = pd.concat(frames, ignore_index=True)
    derived = add_derived(samples, {}, Environment()).reindex(columns=[*samples, "l2_hit_pct"])
    found = derived[derived["l2_hit_pct"].notna()]
    visits = zip(found["cell"], found["block"], found["arm"], strict=True)
    return dict(zip(visits, found["l2_hit_pct"], strict=True))


def test_the_l2_hit_rate_is_put_together_from_two_sessions_of_a_visit():
    a, again, b = ("a", 0, 0), ("a", 1, 0), ("b", 0, 0)
    traffic = [
        _counted("ncu-counters", visit, lts__t_bytes=32.0 * sectors)
        for visit, sectors in ((a, 100), (again, 200), (b, 1000))
    ]
    hits = _counted("ncu-counters-2", b, a, again, lts__t_sectors_lookup_hit=50.0)
    assert _hit_rates(*traffic, hits) == pytest.approx({a: 50.0, again: 25.0, b: 5.0})


def test_hits_of_one_visit_are_not_divided_by_the_traffic_of_another():
    hits = _counted("ncu-counters-2", ("a", 0, 0), lts__t_sectors_lookup_hit=50.0)
    elsewhere = [
        _counted("ncu-counters", ("a", 1, 0), lts__t_bytes=3200.0),
        _counted("ncu-counters", ("a", 0, 1), lts__t_bytes=3200.0),
        _counted("ncu-counters", ("b", 0, 0), lts__t_bytes=3200.0),
        _counted("ncu-timing", ("a", 0, 0), kind="timing", lts__t_bytes=3200.0),
    ]
    assert _hit_rates(*elsewhere, hits) == {}


def test_the_l2_hit_rate_comes_from_one_session_where_it_has_both():
    raw = launch(ours("a", 0), lts__t_sectors_lookup_hit=25.0, lts__t_bytes=3200.0)
    samples = _samples([raw], ("l2_hit_sectors", "l2_bytes"))
    assert add_derived(samples, {}, Environment())["l2_hit_pct"][0] == pytest.approx(25.0)


def test_a_hit_rate_of_passes_that_disagree_is_missing_and_came_back():
    raw = launch(ours("a", 0), lts__t_sectors_lookup_hit=102.0, lts__t_bytes=3200.0)
    samples = add_derived(_samples([raw], ("l2_hit_sectors", "l2_bytes")), {}, Environment())
    assert "l2_hit_pct" not in samples.columns
    assert missing_metrics(samples, ["l2_hit_pct"]) == {}
    assert missing_metrics(samples.drop(columns="l2_bytes"), ["l2_hit_pct"]) == {
        "a": ("l2_hit_pct",)
    }


def test_without_traffic_there_is_no_hit_rate():
    raw = launch(ours("a", 0), lts__t_sectors_lookup_hit=0.0, lts__t_bytes=0.0)
    samples = _samples([raw], ("l2_hit_sectors", "l2_bytes"))
    assert "l2_hit_pct" not in add_derived(samples, {}, Environment()).columns


# ---- from the runner -----------------------------------------------------------------------------


def test_what_the_runner_said_of_a_cell_is_in_all_its_samples():
    samples = _samples([launch(ours(cell, block)) for cell in "ab" for block in range(2)])
    statuses = {
        "a": status_of("a", compile_seconds=1.5, buffer_bytes=64.0),
        "b": status_of("b", buffer_bytes=32.0),
    }
    names = ("compile_s", "buffer_bytes", "peak_bytes")
    frame = add_status_facts(samples, statuses, names)
    by_cell = frame.groupby("cell")[["compile_s", "buffer_bytes"]].agg(["min", "max"])
    assert by_cell.loc["a"].tolist() == [1.5, 1.5, 64.0, 64.0]
    assert by_cell.loc["b", "compile_s"].isna().all()
    assert "peak_bytes" not in frame, "nobody said anything"
    assert "compile_s" not in samples, "a new frame"


def test_every_metric_of_the_runner_has_a_place_in_a_status():
    names = [name for name, metric in CATALOGUE.items() if metric.source == "runner"]
    status = status_of(
        "a",
        max_abs_error=1.0,
        max_rel_error=2.0,
        flops=3.0,
        non_matmul_flops=3.5,
        compile_seconds=4.0,
        buffer_bytes=5.0,
        peak_bytes=6.0,
    )
    frame = add_status_facts(_samples([launch(ours("a", 0))]), {"a": status}, names)
    assert frame[names].notna().all(axis=None)


def test_cells_without_a_status_have_no_facts_of_the_runner():
    samples = _samples([launch(ours("a", 0))])
    assert "flops" not in add_status_facts(samples, {}, ["flops"])


# ---- from the build ------------------------------------------------------------------------------


def test_a_build_gives_the_largest_of_its_kernels():
    samples = _samples([launch(ours(cell, 0), gpu__time_duration=1.0) for cell in "abc"])
    kernels = [KernelFacts("k", spill_store_bytes=value) for value in (4, 16, None)]
    builds = {
        "a": BuildResult("a", ok=True, kernels=tuple(kernels)),
        "b": BuildResult("b", ok=True, kernels=(KernelFacts("k"),)),
    }
    frame = add_build_facts(samples, builds, ["spill_store_bytes", "stack_bytes"])
    assert frame["spill_store_bytes"].tolist()[0] == 16.0
    assert frame["spill_store_bytes"][1:].isna().all()
    assert "stack_bytes" not in frame, "no build has one"
    assert "spill_store_bytes" not in samples, "a new frame"
