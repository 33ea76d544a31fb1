"""The catalogue against ncu's real column names, and the questions asked of it."""

import csv
import dataclasses
import gzip
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from profiler.errors import UsageError
from profiler.metrics import passes
from profiler.metrics import queries as metrics
from profiler.metrics.catalogue import CATALOGUE, GROUPS, TENSOR_TYPES, Combine, PassClass
from profiler.metrics.passes import (
    cheapest_groups,
    conflicts,
    is_replayed,
    ncu_launch_seconds,
    runs_of_kernel,
)
from profiler.metrics.queries import CHIPS
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import open_run

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests" / "recordings" / "ncu-2025.3.1"
EXPLAINED = ROOT / "tests/recordings/explained.zip"
EXPERIMENTS = sorted((ROOT / "experiments").glob("*.yaml"))


def _header(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        return next(csv.reader(line for line in stream if line.startswith('"ID"')))


def test_every_name_is_a_column_that_ncu_really_writes():
    columns = set(_header(RECORDINGS / "ncu_import_full_raw.csv.gz"))
    columns |= set(_header(RECORDINGS / "ncu_raw_onepass_60.csv.gz"))
    columns |= set(_header(open_run(EXPLAINED).path / "raw/ncu-explain.001/ncu.csv.gz"))
    assert set(metrics.ncu_names(GROUPS["all"], "9.0")) <= columns


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_what_ncu_measures_in_an_experiment_is_held_against_the_roofs(file):
    collect = load_spec(file).experiment.collect
    if "ncu" in collect.collectors:
        assert "roof_dram_pct" in metrics.expand(collect.metrics)


def test_every_metric_is_listed_under_its_own_name_with_words():
    for name, metric in CATALOGUE.items():
        assert metric.name == name
        assert metric.label
        assert metric.definition.endswith(".")
        assert metric.source in {"ncu", "timer", "ptxas", "runner", "counted", "derived"}
        assert bool(metric.ncu) == (metric.source == "ncu")


def test_names_carry_their_unit():
    suffixes = {"ns": "_ns", "byte": "_bytes", "byte/block": "_bytes", "%": "_pct"}
    for metric in CATALOGUE.values():
        if metric.unit in suffixes:
            assert metric.name.endswith(suffixes[metric.unit]), metric.name


def test_entries_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CATALOGUE["cycles"].unit = "s"


def test_ratios_of_sums_name_both_parts():
    for metric in CATALOGUE.values():
        parts = (metric.numerator, metric.denominator)
        assert all(parts) == (metric.combine is Combine.RATIO_OF_SUMS)


def test_groups_and_needs_name_only_metrics_that_exist():
    named = [name for group in GROUPS.values() for name in group]
    named += [need for metric in CATALOGUE.values() for need in metric.needs]
    assert set(named) <= set(CATALOGUE)
    assert not set(GROUPS) & set(CATALOGUE)


def test_expand_keeps_the_order_and_every_name_once():
    assert metrics.expand(["cycles", "timing", "lts__t_sectors.sum", "cycles"]) == (
        "cycles",
        "duration_ns",
        "lts__t_sectors.sum",
    )


def test_expand_refuses_an_unknown_name_and_suggests_one():
    with pytest.raises(UsageError) as caught:
        metrics.expand(["l2_hit_pc"])
    assert "'l2_hit_pct'" in str(caught.value)


@pytest.mark.parametrize("typo", ["duration", "bank_conflict", "stall", "defalt"])
def test_suggestions_exist(typo):
    close = metrics.suggest(typo)
    assert close is not None
    assert metrics.is_metric_or_raw_name(close)


def test_no_suggestion_for_something_else_entirely():
    assert metrics.suggest("zzzzzz") is None


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("gpu__time_duration.sum", True),
        ("launch__registers_per_thread", True),
        ("l1tex__t_sector_hit_rate.pct", True),
        ("sm__ops_path_tensor_src_fp16.sum", True),
        ("duration_ns", False),
        ("gpu__time_duration.sum,other", False),
        ("--set full", False),
        ("", False),
        ("__", False),
    ],
)
def test_raw_names_are_told_by_their_form(name, raw):
    assert metrics.is_raw_name(name) is raw


@pytest.mark.parametrize(
    ("name", "capability", "raw"),
    [
        ("dram_read_bytes", None, "dram__bytes_read.sum"),
        ("dram_read_bytes", "9.0", "dram__bytes_read.sum"),
        ("dram_read_bytes", "12.0", "dram__bytes_op_read.sum"),
        ("dram_write_bytes", "12.1", "dram__bytes_op_write.sum"),
        ("stall_gmma", "8.0", None),
        ("stall_gmma", "10.0", None),
        ("stall_gmma", None, None),
        ("stall_imc_miss", "10.0", None),
        ("spill_store_bytes", "9.0", None),
        ("lts__t_sectors.sum", "9.0", "lts__t_sectors.sum"),
    ],
)
def test_names_depend_on_the_architecture(name, capability, raw):
    assert metrics.ncu_name(name, capability) == raw


def test_what_an_architecture_does_not_have_is_said():
    names = ("stall_gmma", "stall_barrier", "spill_store_bytes", "a__b.sum")
    assert metrics.absent_on(names, "8.0") == ("stall_gmma",)
    assert metrics.absent_on(names, "9.0") == ()


def test_the_l2_hit_rate_brings_hits_and_traffic_but_not_the_rate_of_ncu():
    assert metrics.ncu_names(["l2_hit_pct"]) == (
        "lts__t_sectors_lookup_hit.sum",
        "lts__t_bytes.sum",
    )
    assert metrics.raw_sources("l2_hit_pct") == ("lts__t_sector_hit_rate.pct",)


def test_one_pass_metrics_bring_nothing_that_could_cost_a_pass():
    one_pass = (PassClass.TIMING, PassClass.STATIC, PassClass.SINGLE)
    for name, metric in CATALOGUE.items():
        if metric.pass_class in one_pass and metric.ncu:
            assert metrics.ncu_names([name], "9.0") == (metrics.ncu_name(name, "9.0"),)


def test_derived_metrics_bring_what_they_are_computed_from():
    assert metrics.ncu_names(["dram_gbps"]) == (
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "gpu__time_duration.sum",
    )


MANY = 1_000_000


def counted(names, launches=MANY, **costs):
    """Metrics of each counter session, by the end of its name, without the duration before them."""
    sessions = passes.counter_sessions(names, {(*TENSOR_TYPES,): launches}, **costs)
    assert all(session.metrics[0] == "duration_ns" for session in sessions)
    return {session.suffix: [*session.metrics[1:]] for session in sessions}


def test_what_does_not_fit_in_one_pass_is_counted_apart_where_launches_are_many():
    names = ["l2_hit_pct", "registers", "dram_read_bytes"]
    assert passes.timing_metrics(names, with_cycles=False) == ("duration_ns", "registers")
    apart = {"": ["dram_read_bytes", "l2_bytes"], "-l2_hit_sectors": ["l2_hit_sectors"]}
    assert counted(names) == apart
    together = {"-together": ["dram_read_bytes", "l2_bytes", "l2_hit_sectors"]}
    assert counted(names, 2) == together
    few, many = (len(counted(names, 20, session_s=seconds)) for seconds in (80.0, 0.0))
    assert (few, many) == (1, 2)


def test_what_is_alone_has_the_usual_name():
    assert counted(["l2_hit_sectors"]) == {"": ["l2_hit_sectors"]}
    assert counted(["fp32_fma"]) == {"": ["fp32_fma"]}


def test_a_launch_that_is_replayed_counts_everything():
    assert counted(["fp32_fma", "l2_hit_pct", "dram_read_bytes"]) == {
        "-together": ["dram_read_bytes", "l2_bytes", "fp32_fma", "l2_hit_sectors"],
    }


def test_the_roofline_of_bf16_is_counted_in_one_pass_with_its_ceilings():
    sessions = counted(metrics.without_other_types(GROUPS["tensor_roofline"], ["bf16"]))
    assert sessions.keys() == {""}
    ceilings = {"dram_peak", "dram_clock_hz", "fp32_fma_peak", "sm_clock_hz", "tensor_bf16_peak"}
    assert {"dram_read_bytes", "l2_bytes", "l1_bytes", "tensor_bf16_ops", *ceilings} <= {
        *sessions[""]
    }


def test_a_ceiling_is_of_the_launch_of_its_operations():
    asked = [
        *metrics.without_other_types(GROUPS["tensor_roofline"], ["bf16"]),
        "l2_hit_pct",
        "instructions",
    ]
    with_operations = [
        metrics for metrics in counted(asked).values() if "tensor_bf16_ops" in metrics
    ]
    assert len(with_operations) == 1
    assert {"sm_clock_hz", "tensor_bf16_peak"} <= {*with_operations[0]}
    assert counted(["tensor_bf16_ops"]) == {"": ["tensor_bf16_ops"]}, "nobody asked for a ceiling"


def test_hits_of_l2_and_operations_on_bf16_are_counted_in_one_pass():
    names = ["dram_read_bytes", "tensor_bf16_ops", "l2_hit_sectors"]
    assert counted(names) == {"": names}
    apart = {"": [names[0], "instructions", names[2]], "-bf16": ["tensor_bf16_ops"]}
    assert counted([*names, "instructions"]) == apart
    with_bf16, hits = (ncu_launch_seconds(names[start:]) for start in (1, 2))
    assert hits < with_bf16 < 2 * hits


@pytest.mark.parametrize("capability", CHIPS)
def test_no_two_conflicting_metrics_share_a_session_of_many_launches(capability):
    """Peaks and clocks come beside others whose conflicts are checked: they must have none."""
    singles = [name for name in CATALOGUE if metrics.pass_class(name) is PassClass.SINGLE]
    exist = [name for name in singles if metrics.ncu_name(name, capability) is not None]
    fit_alone = [name for name in exist if not is_replayed([name], capability)]
    groups = cheapest_groups(fit_alone, MANY, 1.0, capability)
    assert sorted(name for group in groups for name in group) == sorted(fit_alone)
    assert not any(is_replayed(group, capability) for group in groups)
    beside = {name for metric in CATALOGUE.values() for name in metric.beside}
    assert not beside & {name for together in conflicts(capability) for name in together}


@pytest.mark.parametrize(
    ("capability", "as_on"),
    [
        (None, "9.0"),
        ("8.7", "8.6"),
        ("8.9", "8.9"),
        ("10.3", "10.0"),
        ("12.1", "12.0"),
        ("6.1", "9.0"),
    ],
)
def test_conflicts_of_an_unknown_gpu_are_those_of_one_like_it(capability, as_on):
    assert conflicts(capability) is conflicts(as_on)
    assert not is_replayed(["l2_bytes", "tensor_bf16_ops"], capability)
    assert is_replayed(["lts__t_bytes.sum", "l2_hit_sectors"], capability), "a raw name"


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_groups_are_those_of_all_ways_to_group(seed):
    random = Random(seed)  # noqa: S311 - no secret
    singles = [name for name in CATALOGUE if metrics.pass_class(name) is PassClass.SINGLE]
    sampled = [*random.sample(singles, 5), *random.sample(["fp32_fma", "stall_wait"], seed % 2)]
    launches, session_s = random.choice((1, 10, 30, 300)), random.choice((0.2, 1.0))

    def cost(groups):
        return sum(session_s + launches * ncu_launch_seconds(group) for group in groups)

    groups = cheapest_groups(sampled, launches, session_s, None)
    assert sorted(name for group in groups for name in group) == sorted(sampled)
    assert cost(groups) == pytest.approx(min(map(cost, partitions(sampled))))


def partitions(names):
    """All ways to put names into groups."""
    if not names:
        yield []
        return
    for groups in partitions(names[1:]):
        yield [[names[0]], *groups]
        for number, group in enumerate(groups):
            yield [*groups[:number], [names[0], *group], *groups[number + 1 :]]


def test_a_kernel_runs_again_where_it_is_replayed_and_longest_where_it_is_rewritten():
    alone, replayed, rewritten = (
        runs_of_kernel(("duration_ns", *names))
        for names in (
            ("instructions",),
            ("instructions", "l2_bytes", "l2_hit_sectors"),
            ("instructions", "fp32_fma"),
        )
    )
    assert 1 == alone < replayed < rewritten


def typed(**launches):
    """Counters of tensor operations and types of the launches of each session of a roofline."""
    by_types = {tuple(types.split("_")): count for types, count in launches.items()}
    sessions = passes.counter_sessions(GROUPS["tensor_roofline"], by_types)
    return {
        session.suffix: ({n for n in session.metrics if n.endswith("_ops")}, session.types)
        for session in sessions
    }


def test_operations_are_counted_where_the_launch_works_on_their_type():
    both = frozenset({("bf16",), ("fp16",)})
    assert typed(bf16=300, fp16=300) == {
        "": ({"tensor_bf16_ops"}, frozenset({("bf16",)})),
        "-together": ({"tensor_fp16_ops"}, frozenset({("fp16",)})),
    }
    assert typed(bf16=2, fp16=2) == {"-together": ({"tensor_bf16_ops", "tensor_fp16_ops"}, both)}
    assert typed(bf16_fp16=300).keys() == {"-together"}, "launches that work on both"


def test_sessions_of_the_same_kind_for_other_types_have_names_of_their_own():
    sessions = typed(bf16=300, tf32=300)
    assert {suffix: types for suffix, (_, types) in sessions.items()} == {
        "": frozenset({("bf16",)}),
        "-tf32": frozenset({("tf32",)}),
    }


def test_operations_that_take_several_passes_are_counted_by_parts_of_one_pass_each():
    hgmma, to_fp32, to_fp16 = CATALOGUE["tensor_fp16_ops"].parts
    asked = [*GROUPS["tensor_roofline"], "l2_hit_pct"]

    def sessions(capability, launches):
        found = passes.counter_sessions(asked, {("fp16",): launches}, capability=capability)
        return [{n for n in s.metrics if n.endswith(("_ops", "_hit_sectors"))} for s in found]

    assert sessions("9.0", 300) == [{hgmma, to_fp32}, {to_fp16, "l2_hit_sectors"}]
    whole = [{"tensor_fp16_ops", "l2_hit_sectors"}]
    assert sessions("9.0", 3) == whole, "few launches cost less than one more session"
    assert sessions(None, 300) == whole, "no GPU is known"
    one_pass = [{"tensor_fp16_ops"}, {"l2_hit_sectors"}]
    assert all(sessions(other, 300) == one_pass for other in ("8.0", "10.0"))


def test_a_ceiling_is_beside_the_first_of_the_parts():
    sessions = passes.counter_sessions(
        GROUPS["tensor_roofline"], {("fp16",): 300}, capability="9.0"
    )
    first = CATALOGUE["tensor_fp16_ops"].parts[0]
    (with_first,) = [session for session in sessions if first in session.metrics]
    assert {"tensor_fp16_peak", "sm_clock_hz"} <= {*with_first.metrics}


def test_parts_are_counted_in_place_of_a_metric_only_where_all_of_them_exist():
    names = ("duration_ns", "tensor_fp16_ops", "tensor_bf16_ops", "dram__bytes.sum")
    parts = CATALOGUE["tensor_fp16_ops"].parts
    assert metrics.replaced_by_parts(names, "9.0") == (names[0], *parts, *names[2:])
    assert all(metrics.replaced_by_parts(names, other) == names for other in ("8.0", "10.0", None))
    assert not {*parts} & {*GROUPS["all"]}


def test_fp32_operations_are_no_part_of_the_roofline_of_tensor_cores():
    every, cheap = (
        metrics.with_needed_metrics(GROUPS[name]) for name in ("roofline", "tensor_roofline")
    )
    assert {*every} - {*cheap} == {"fp32_fma", "fp32_add", "fp32_mul", "roof_fp32_pct"}
    assert {*cheap} <= {*every}


@pytest.mark.parametrize("names", [[], ["duration_ns"], ["cycles"], ["registers"], GROUPS["all"]])
def test_a_timing_session_has_cycles_where_nothing_else_counts_them(names):
    alone, beside = (passes.timing_metrics(names, with_cycles=cycles) for cycles in (True, False))
    assert alone[:2] == ("duration_ns", "cycles")
    assert beside == tuple(name for name in alone if name != "cycles")
    light = (PassClass.TIMING, PassClass.STATIC)
    assert {CATALOGUE[name].pass_class for name in alone} <= set(light)
    assert passes.confirmation_metrics(beside) == passes.confirmation_metrics(alone) == alone


def test_the_first_counters_of_each_cell_count_cycles():
    types = (("bf16",), ("fp16",))
    sessions = passes.counter_sessions(GROUPS["tensor_roofline"], dict.fromkeys(types, 300))
    counting = passes.with_cycles_counted(sessions, types)
    assert counting is not None
    of_type = {
        kind: [session.suffix for session in counting if (kind,) in session.types]
        for kind in ("bf16", "fp16")
    }
    assert of_type == {"bf16": [""], "fp16": ["-together"]}
    with_cycles = [session.suffix for session in counting if "cycles" in session.metrics]
    assert with_cycles == ["", "-together"]
    assert all(session.metrics[0] == "duration_ns" for session in counting)
    bf16_only = passes.counter_sessions(["tensor_bf16_ops"], dict.fromkeys(types, 300))
    assert passes.with_cycles_counted(bf16_only, types) is None, (
        "nothing is counted in those on fp16"
    )
    assert passes.with_cycles_counted((), types) is None


def test_there_is_no_counter_session_for_nothing():
    assert counted(["cycles", "tflops", "spill_store_bytes"]) == {}


def test_raw_names_are_sorted_by_what_is_known_of_them():
    raw = ["dram__bytes_read.sum", "launch__sm_count", "sm__throughput.max", "foo__bar.sum"]
    timing = passes.timing_metrics([*raw, "gpc__cycles_elapsed.max"], with_cycles=False)
    assert timing == ("duration_ns", "launch__sm_count", "gpc__cycles_elapsed.max")
    assert counted(raw) == {
        "-together": ["dram__bytes_read.sum", "sm__throughput.max", "foo__bar.sum"]
    }
    assert counted(raw[:2]) == {"": ["dram__bytes_read.sum"]}


@pytest.mark.parametrize("launches", [1, MANY])
def test_nothing_that_ncu_measures_is_lost(launches):
    for names in (GROUPS["all"], GROUPS["default"], GROUPS["tensor_roofline"]):
        timing = passes.timing_metrics(names, with_cycles=True)
        counters = [name for group in counted(names, launches).values() for name in group]
        measured = {name for name in names if CATALOGUE[name].ncu}
        needed = {need for name in names for need in CATALOGUE[name].needs}
        assert {*timing, *counters} == measured | needed | {"duration_ns", "cycles"}
        twice = {name for name, times in Counter([*timing, *counters]).items() if times > 1}
        assert twice <= {"sm_clock_hz"}, "the clock, in each session with a ceiling that needs it"


@pytest.mark.parametrize(
    ("raw", "combine"),
    [
        ("dram__bytes.sum", Combine.SUM),
        ("sm__cycles_elapsed.max", Combine.MAX),
        ("sm__cycles_elapsed.min", Combine.MIN),
        ("dram__bytes.sum.per_second", Combine.WEIGHTED),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", Combine.WEIGHTED),
        ("lts__t_sector_hit_rate.pct", Combine.WEIGHTED),
        ("launch__registers_per_thread", Combine.MAX),
    ],
)
def test_raw_names_say_how_they_combine(raw, combine):
    assert metrics.raw_combine(raw) is combine


def test_raw_names_have_no_direction():
    assert metrics.better("a__b.sum") is None
    assert metrics.better("tflops") == "higher"
    assert metrics.better("registers") is None


def test_roofs_are_called_as_elsewhere_on_a_page():
    assert CATALOGUE["roof_l1_pct"].label == "L1 roof"
    assert CATALOGUE["roof_tensor_bf16_pct"].label == "BF16 tensor roof"


def test_where_another_pass_is_another_launch_operations_of_other_types_cost_none():
    asked = [*GROUPS["tensor_roofline"], "l2_hit_pct"]

    def sessions(names, *every):
        return {
            session.suffix: (session.types, [n for n in session.metrics if n.endswith("_ops")])
            for session in passes.shared_sessions(names, every, "9.0")
        }

    bf16, fp16, fp8 = ("bf16",), ("fp16",), ("fp8",)
    assert sessions(asked, bf16, fp16, bf16) == {
        "": ({bf16}, ["tensor_bf16_ops"]),
        "-fp16": ({fp16}, [*CATALOGUE["tensor_fp16_ops"].parts]),
    }
    both = ["tensor_bf16_ops", "tensor_fp8_ops"]
    assert sessions(both, bf16, fp8) == {"": ({bf16, fp8}, both)}, "they share a pass"
    assert sessions(["duration_ns"], bf16) == {}
