import pytest

from profiler.metrics import queries
from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.explain import explain_metrics
from profiler.metrics.queries import (
    CHIPS,
    COMMONEST_CAPABILITY,
    correction_of_name,
    metric_types_of_chip,
    ncu_name,
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smsp__inst_exectued.sum", "; did you mean 'smsp__inst_executed.sum'?"),
        ("smps__inst_executed.avg.per_second", "'smsp__inst_executed.avg.per_second'?"),
        ("dram__byte_read.sum", "did you mean 'dram__bytes_read.sum'?"),
        ("smsp__inst_executed", "; it is followed by .sum or .avg or .min or .max"),
        ("smsp__inst_executed.pct", "; it is followed by .sum or .avg or .min or .max"),
        ("lts__t_sector_hit_rate.avg", "; it is followed by .pct or .ratio or .max_rate"),
        ("sm__throughput", "followed by .sum.pct_of_peak_sustained_elapsed or .avg.pct_of_peak"),
    ],
)
def test_a_misspelled_name_says_the_right_one(name, hint):
    assert hint in correction_of_name(name, COMMONEST_CAPABILITY)


@pytest.mark.parametrize(
    "name",
    [
        "smsp__inst_executed.sum",
        "gpu__time_duration.avg",
        "lts__t_sector_hit_rate.pct",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "launch__registers_per_thread",
        "sass__inst_executed_shared_loads",
        "device__attribute_warp_size",
        "smsp__pcsamp_sample_buffer_full",
    ],
)
def test_a_right_name_passes_and_so_does_what_is_in_no_list(name):
    assert correction_of_name(name, COMMONEST_CAPABILITY) is None


def test_chips_without_a_list_are_not_judged():
    assert correction_of_name("smsp__inst_exectued.sum", "6.0") is None
    assert all(len(metric_types_of_chip(capability)) > 1500 for capability in CHIPS)


@pytest.mark.parametrize("capability", CHIPS)
def test_names_of_the_catalogue_would_pass_if_they_were_raw(monkeypatch, capability):
    monkeypatch.setattr(queries, "_NAME_OF_RAW", {})
    names = {ncu_name(name, capability) for name in CATALOGUE} - {None}
    assert len(names) > 50
    assert not [name for name in names if correction_of_name(name, capability)]


@pytest.mark.parametrize("capability", CHIPS)
def test_what_is_asked_for_exists_on_the_chip(capability):
    names = {ncu_name(name, capability) for name in CATALOGUE} - {None, ""}
    asked = {*names, *explain_metrics(capability)}
    missing = {
        name for name in asked if name.partition(".")[0] not in metric_types_of_chip(capability)
    }
    unlisted = {name for name in missing if name.startswith("launch__")}
    assert missing - unlisted == {"sm__maximum_warps_per_active_cycle_pct"}, "ncu computes it"
