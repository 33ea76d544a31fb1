"""What was sampled inside launches: a product of 512 tiles on 132 SMs, and a softmax of 7 µs."""

import gzip
import math
from pathlib import Path

import pytest

from profiler.analyse.why.inside import ACTIVE, ISSUED, PER_ACTIVE, read_samples, samples_of_page

CAPTURE = Path(__file__).parents[2] / "recordings/ncu-2025.3.1/ncu_raw_instances.csv.gz"
PAGE = gzip.decompress(CAPTURE.read_bytes()).decode()
COUNTED_GHZ, COUNTED_IDLE = 1.584563, 1 - 267573.59 / 285623


@pytest.fixture(scope="module")
def launches():
    return read_samples(samples_of_page(PAGE))


def test_the_clock_inside_a_product_is_that_of_its_counters_and_moves(launches):
    product = launches[0]
    assert product.is_known
    assert product.clock_ghz == pytest.approx(COUNTED_GHZ, rel=0.01)
    lowest, highest = product.clock_range_ghz
    assert lowest < 0.95 * COUNTED_GHZ < 1.05 * COUNTED_GHZ < highest


def test_the_last_wave_of_a_product_is_its_tail(launches):
    """512 tiles are three waves of 132 and one of 116: 0.88 of the SMs work in the last one."""
    product = launches[0]
    in_last_wave = product.busy[product.times_ns > product.duration_ns - product.tail_ns]
    assert sorted(in_last_wave)[len(in_last_wave) // 2] == pytest.approx(116 / 132, abs=0.01)
    assert product.tail_ns == pytest.approx(product.duration_ns / 4, rel=0.1)
    assert product.ramp_ns < 2 * product.step_ns
    assert product.idle_share == pytest.approx(COUNTED_IDLE, abs=0.03)
    assert 0 <= product.idle_share - product.ends_idle_share < 0.01


def test_a_kernel_of_few_samples_tells_nothing(launches):
    assert len(launches[2].samples[ACTIVE]) == 5
    assert not launches[2].is_known


def test_where_hardly_anything_is_issued_busy_sms_are_not_known(launches):
    product = launches[0]
    samples = dict(product.samples)
    samples[PER_ACTIVE], samples[ISSUED] = 0.01 * samples[PER_ACTIVE], 0.01 * samples[ISSUED]
    quiet = type(product)(product.begin_ns, product.step_ns, product.duration_ns, samples)
    assert not quiet.is_known
    assert all(map(math.isnan, quiet.busy[samples[ACTIVE] > 0]))


def test_long_launches_are_averaged_and_keep_their_length():
    head, units, row, _ = PAGE.splitlines()
    step = 1504
    times = [1795871793858660544 + step * n for n in range(1001)]
    samples = "; ".join(f"{at} (+{at}): 2" for at in times)
    cells = row.split('","')
    names = head.strip('"').split('","')
    for place, name in enumerate(names):
        if name.startswith(("TPC", "FBSP")):
            cells[place] = f"1 ({samples})"
        if name.startswith("profiler__timestamp_workload_end"):
            cells[place] = f"1 ({times[-1] + step} (+0): 0)"
    page = "\n".join([head, units, '","'.join(cells)])
    (long,) = read_samples(samples_of_page(page)).values()
    assert len(long.busy) == math.ceil(1001 / 3)
    assert long.step_ns == 3 * step
    assert long.samples[ACTIVE] == pytest.approx(2 / step, rel=1e-3)


@pytest.mark.parametrize("page", ["", '"ID","Kernel Name"\n"",""\n', PAGE.replace("realtime", "x")])
def test_a_page_without_samples_has_none(page):
    assert samples_of_page(page) == ""


@pytest.mark.parametrize("text", ["[]", "{}", '{"launches":[{"id":0}]}', "no json"])
def test_other_json_is_refused(text):
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_samples(text)
