"""The figure of what was sampled inside a kernel, and what is said below it."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.analyse.why.account import KernelTime
from profiler.analyse.why.inside import ACTIVE, ISSUED, read_samples, samples_of_page
from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.findings.why.cells import CellWhy, KernelWhy
from profiler.findings.why.document import InsideDocument
from profiler.render.tables.explained import _tree
from profiler.render.words.why import inside_words, no_inside_words

PAGE = Path(__file__).parents[2] / "recordings/ncu-2025.3.1/ncu_raw_instances.csv.gz"


@pytest.fixture(scope="module")
def product():
    """The product of the capture, with its counters."""
    samples = read_samples(samples_of_page(gzip.decompress(PAGE.read_bytes()).decode()))
    values = {"gpu__time_duration.sum": 177600.0, "sm__cycles_elapsed.avg.per_second": 1.584563e9}
    time = KernelTime("product", 177600.0, 1.0, {"wait": 1.0}, 1.0, 285623 / 267573.59, 1.608)
    profile = KernelProfile("product", values, inside=samples[0])
    return KernelWhy(profile, (), {}, (), (), (), time)


def test_ramp_tail_and_clock_are_said_and_agree_with_the_counters(product):
    assert inside_words(product) == (
        "One launch, a sample each 1.504 µs: SMs fill for 1.792 µs (ramp) and empty for 43.10 µs "
        "(tail) of 177.2 µs; they are idle for 4.3 % of the time, 4.1 % in these two. The clock is "
        "1.58 GHz, by tenths of the launch 1.45 to 1.67."
    ).replace(" µs", "\u202fµs").replace(" %", "\u202f%")


def test_where_counters_tell_otherwise_it_is_said(product):
    values = {**product.profile.values, "sm__cycles_elapsed.avg.per_second": 1.7e9}
    other = replace(
        product,
        profile=KernelProfile("product", values, inside=product.profile.inside),
        time=replace(product.time, imbalance=1.25),
    )
    assert other.samples_disagree == (True, True)
    words = inside_words(other)
    assert "clocked at 1.70 GHz: its part of the clock is of that pass." in words
    assert "Counters say idle for 20.0" in words


def test_the_figure_has_lines_for_what_was_busy_and_shades_the_tail(product):
    chart = _tree("product, p", "a..p", CellWhy((product,)), 3)["inside"]
    assert chart.id == "figure-inside-3"
    for name in ("SMs with a warp", "tensor pipe", "device memory", "SM clock, GHz", "tail"):
        assert name in chart.drawing
    assert "ramp<" not in chart.drawing, "no room"
    without = replace(product, profile=KernelProfile("product", product.profile.values))
    tree = _tree("product, p", "a..p", CellWhy((without,)), 3)
    assert (tree["inside"], tree["no_inside"]) == (None, "")


def test_a_kernel_on_a_few_sms_has_a_figure_without_a_clock(product):
    """Figure of a kernel such as one of 16 blocks: in no sample are half of 132 SMs busy."""
    inside = product.profile.inside
    names = (ACTIVE, ISSUED)
    samples = {**inside.samples, **{name: inside.samples[name] * 0.12 for name in names}}
    profile = KernelProfile(
        "product", product.profile.values, inside=replace(inside, samples=samples)
    )
    few = replace(product, profile=profile)
    assert few.inside is not None
    chart = _tree("product, p", "a..p", CellWhy((few,)), 3)["inside"]
    assert "SMs with a warp" in chart.drawing
    assert "since the launch began" in chart.drawing
    assert "SM clock" not in chart.drawing
    assert "idle for 88" in chart.reading
    assert "No sample tells the clock" in chart.reading
    document = InsideDocument.document(few.inside)
    assert (document["clock_ghz"], document["lowest_clock_ghz"]) == (None, None)
    assert few.samples_disagree[0] is False


def test_it_is_said_why_a_kernel_that_was_sampled_has_no_figure(product):
    values = {**product.profile.values, "profiler__pmsampler_interval_time": 1500.0}
    not_printed = replace(product, profile=KernelProfile("product", values))
    assert "Nsight Compute 2025.3.1" in no_inside_words(not_printed)
    samples = read_samples(samples_of_page(gzip.decompress(PAGE.read_bytes()).decode()))
    short = replace(product, profile=KernelProfile("softmax", values, inside=samples[2]))
    assert no_inside_words(short).startswith("5 samples inside it do not tell")
