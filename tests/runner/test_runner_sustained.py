"""Visits of one cell back to back: what is found to have settled, and what NVML says of it."""

import itertools
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from profiler.parse.runner_journal import record_of
from profiler.runner.device import CpuDevice, open_device
from profiler.runner.protocol import SUSTAINED_FACTS, JobVisit
from profiler.runner.visits import bursts, power, sustained
from profiler.runner.visits.bursts import LaunchInTurn, burst_of
from profiler.runner.visits.power import PowerMeter, Reading, mean_power, power_limited_pct
from profiler.runner.visits.sustained import BurstSpan, Settling, SustainedVisits, TimedBurst

VISIT = JobVisit("a..p0", 3)


class Gpu:
    """A GPU whose clock falls from 2 to 1.4 GHz while it is busy, `settles_s` long; its time is
    that of everybody. A launch takes 2e6 cycles."""

    def __init__(self, settles_s, drift=0.0):
        self.now_s = 0.0
        self.settles_s = settles_s
        self.drift = drift
        self.energy_j = 0.0

    @property
    def clock_hz(self):
        share = min(1.0, self.now_s / self.settles_s)
        return (2.0 - 0.6 * share) * 1e9 * (1 - self.drift * self.now_s)

    @property
    def power_w(self):
        return 100 + 600 * min(1.0, self.now_s / self.settles_s)

    def launch(self):
        seconds = 2e6 / self.clock_hz
        self.energy_j += seconds * self.power_w
        self.now_s += seconds

    def read(self):
        return Reading(
            self.now_s, round(self.energy_j, -1), self.power_w, self.clock_hz / 1e6, 60.0, 4
        )


class Mark:
    def __init__(self, gpu):
        self.gpu = gpu
        self.at_s = gpu.now_s

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1e3 * (end.at_s - self.at_s)


@pytest.fixture
def gpu(monkeypatch):
    """A fake GPU in place of events, clocks and NVML; NVML is read after every launch."""

    def put(settles_s, **facts):
        gpu = Gpu(settles_s, **facts)
        monkeypatch.setattr(bursts, "new_mark", lambda _: Mark(gpu))
        monkeypatch.setattr(sustained, "new_mark", lambda _: Mark(gpu))
        monkeypatch.setattr(sustained.time, "monotonic", lambda: gpu.now_s)
        return gpu

    return put


def visits_of(bench, gpu, longest_s):
    made = SustainedVisits(
        bench.job(["plain"], collector="sustained", longest_s=longest_s), CpuDevice()
    )
    readings = []

    made._meter = SimpleNamespace(reading=lambda: nullcontext(readings), limit_w=None)

    def launch():
        gpu.launch()
        readings.append(gpu.read())

    return made, launch


def test_a_visit_ends_when_clock_and_power_have_settled(bench, gpu):
    chip = gpu(settles_s=1.6)
    made, launch = visits_of(bench, chip, longest_s=5.0)

    record = made.make(VISIT, launch)

    facts = record["sustained"]
    assert facts.keys() == set(SUSTAINED_FACTS)
    assert record["durations_ns"] == [pytest.approx(2e6 / 1.4, rel=1e-3)]
    assert 1.8 < facts["seconds"] < 2.3, "half a second of agreement after 1.6 s"
    assert facts["settled"] == 1
    assert facts["power_w"] == pytest.approx(700, rel=0.02)
    assert facts["sampled_power_w"] == pytest.approx(700, rel=0.005)
    assert facts["energy_j"] == pytest.approx(facts["power_w"] * 2e-3 / 1.4, rel=1e-3)
    assert facts["sustained_clock_ghz"] == pytest.approx(1.4, rel=1e-3)
    assert (facts["temperature_c"], facts["power_limited_pct"]) == (60, 100)


@pytest.mark.parametrize(("settles_s", "took_s"), [(1e-3, 1.0), (60.0, 2.5)])
def test_a_visit_takes_a_second_at_least_and_what_it_may_at_most(bench, gpu, settles_s, took_s):
    made, launch = visits_of(bench, gpu(settles_s), longest_s=2.5)

    facts = made.make(VISIT, launch)["sustained"]

    assert facts["seconds"] == pytest.approx(took_s, abs=0.2)
    assert facts["settled"] == (took_s == 1.0)


def test_on_a_cpu_without_nvml_all_but_the_time_is_missing(bench):
    made = SustainedVisits(
        bench.job(["plain"], collector="sustained", longest_s=0.02), open_device("cpu")
    )
    x = torch.ones(1000)

    record = made.make(VISIT, lambda: x + 1)

    facts = record["sustained"]
    assert 0 < record["durations_ns"][0] < 1e7
    assert {name for name, value in facts.items() if value is None} == {
        *("power_w", "energy_j", "sampled_power_w", "sustained_clock_ghz", "temperature_c"),
        *("power_limited_pct", "power_limit_w"),
    }
    assert record_of(
        '{"event": "finished", "cell": "a", "block": 0, "phase": "measure", '
        '"sustained": {"power_w": null, "sets": 1}}'
    )


@pytest.mark.parametrize(
    ("acts_s", "settling", "ends_s", "burst_ms", "is_settled"),
    [
        pytest.param(2.6, Settling(5.0, 700), 4.6, 26, True, id="after a cool neighbour"),
        pytest.param(0.0, Settling(5.0, 700), 2.5, 26, True, id="after a hot one"),
        pytest.param(2.6, Settling(2.5, 700), 2.5, 25, False, id="too short for the limit"),
        pytest.param(2.6, Settling(5.0, None), 1.0, 25, True, id="no limit known"),
        pytest.param(2.6, Settling(5.0, 900), 1.0, 25, True, id="far below the limit"),
    ],
)
def test_power_above_the_limit_has_not_settled_however_steady_it_is(
    acts_s, settling, ends_s, burst_ms, is_settled
):
    """A GPU of 700 W draws 725 W until its limit acts, and then 685 W: bursts take 4 % longer."""
    readings = [
        Reading(n / 100, None, 725 if n / 100 < acts_s else 685, None, None, 4) for n in range(800)
    ]
    bursts, now_s = [], 0.0
    while not settling.is_over(now_s, bursts, readings):
        seconds = 0.025 if now_s < acts_s else 0.026
        now_s += seconds
        bursts.append(TimedBurst(seconds, now_s))

    span = settling.span(bursts, readings)
    assert now_s == pytest.approx(ends_s, abs=0.06)
    assert 1e3 * span.burst_s == pytest.approx(burst_ms, rel=1e-3)
    assert settling.has_settled(span) == is_settled


def test_at_the_limit_whole_swings_of_it_are_compared():
    """An H200 swung once a second: 719 W and 201 µs, then 672 W and 210 µs."""
    readings = [
        Reading(n / 100, None, 719 if n % 100 < 50 else 672, None, None, 4) for n in range(800)
    ]
    settling, bursts, now_s = Settling(5.0, 700), [], 0.0
    while not settling.is_over(now_s, bursts, readings):
        seconds = 0.0201 if now_s % 1 < 0.5 else 0.0210
        now_s += seconds
        bursts.append(TimedBurst(seconds, now_s))
    span = settling.span(bursts, readings)
    assert now_s < 3
    assert settling.has_settled(span)
    assert span.burst_s == pytest.approx(0.02055, rel=5e-3)


def test_halves_have_to_agree_in_power_where_the_time_does_not_follow_the_clock():
    readings = [Reading(0.01 * n, None, 500 + n, 1400, None, None) for n in range(50)]
    steady = [TimedBurst(0.02, 0.02 * (n + 1)) for n in range(25)]

    assert BurstSpan.from_bursts(steady, []).is_steady()
    assert not BurstSpan.from_bursts(steady, readings).is_steady(), (
        "3 % more power in the second half"
    )
    assert not BurstSpan.from_bursts(steady[:1], []).is_steady()


# ---- NVML ----------------------------------------------------------------------------------------


class NvmlError(Exception):
    pass


def nvml(**answers):
    """A fake pynvml; what it has no answer to, it refuses."""

    def answer(name):
        def ask(*_):
            if name not in answers:
                raise NvmlError
            return answers[name]

        return ask

    questions = (
        *("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"),
        "nvmlDeviceGetEnforcedPowerLimit",
        *("nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature", "nvmlDeviceGetFieldValues"),
    )
    return SimpleNamespace(
        **{name: answer(name) for name in questions},
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        NVML_FI_DEV_POWER_INSTANT=186,
        NVML_SUCCESS=0,
    )


def test_what_nvml_does_not_know_is_missing():
    meter = PowerMeter(nvml(), "gpu", clock=lambda: 5.0)

    assert meter.read() == Reading(5.0, None, None, None, None, None)
    assert meter.limit_w is None
    assert PowerMeter(nvml(nvmlDeviceGetEnforcedPowerLimit=700_000), "gpu").limit_w == 700


def test_the_power_of_now_goes_before_the_mean_of_a_second():
    now = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=698_000))
    answers = {"nvmlDeviceGetPowerUsage": 300_000, "nvmlDeviceGetTotalEnergyConsumption": 2_500}

    assert PowerMeter(nvml(nvmlDeviceGetFieldValues=[now], **answers), "gpu").read().power_w == 698
    refused = SimpleNamespace(nvmlReturn=3, value=now.value)
    reading = PowerMeter(nvml(nvmlDeviceGetFieldValues=[refused], **answers), "gpu").read()
    assert (reading.power_w, reading.energy_j) == (300, 2.5)


def test_a_meter_reads_until_it_is_left(monkeypatch):
    monkeypatch.setattr(power, "PERIOD_S", 0.001)
    meter = PowerMeter(nvml(nvmlDeviceGetTemperature=61), "gpu")
    with meter.reading() as readings:
        while len(readings) < 3:
            pass
    count = len(readings)
    assert {reading.temperature_c for reading in readings} == {61}
    assert len(readings) == count


def test_mean_power_is_taken_from_step_to_step_of_the_counter():
    """The counter goes on every 100 ms by 70 J, and is read every 10 ms."""
    readings = [
        Reading(0.003 + 0.01 * n, 70.0 * (n // 10), None, None, None, None) for n in range(50)
    ]

    assert mean_power(readings) == pytest.approx(700)
    assert mean_power(readings[:15]) is None, "one step"


def test_reasons_that_are_not_known_are_no_free_clock():
    reasons = [4, 5, 1, None]
    readings = [Reading(0.0, None, None, None, None, reason) for reason in reasons]

    assert power_limited_pct(readings) == pytest.approx(200 / 3)
    assert power_limited_pct(readings[3:]) is None


# ---- launches in turn ----------------------------------------------------------------------------


def test_launches_take_their_sets_of_inputs_in_turn():
    seen = []
    launch = LaunchInTurn([lambda n=n: seen.append(n) for n in range(3)])
    for _ in range(4):
        launch()
    assert seen == [0, 1, 2, 0]


def test_sets_of_inputs_are_three_times_the_size_of_l2(bench):
    class Device(CpuDevice):
        def attributes(self):
            return {"device__attribute_l2_cache_size": 50 << 20}

    visits = SustainedVisits(bench.job(["plain"], longest_s=1.0), Device())

    assert visits.input_sets({"x": torch.zeros(16 << 20, dtype=torch.uint8)}) == 10
    assert visits.input_sets({"x": torch.zeros(1)}) == sustained.MOST_SETS
    assert visits.input_sets(torch.zeros(1, 1).expand(1 << 16, 1 << 16)) == sustained.MOST_SETS
    assert visits.input_sets({}) == 1
    assert SustainedVisits(bench.job(["plain"]), CpuDevice()).input_sets(torch.zeros(1)) == 1


def test_a_session_makes_the_sets_and_checks_the_first_one_again(bench, select, monkeypatch):
    monkeypatch.setattr(SustainedVisits, "input_sets", lambda self, inputs: 3)
    job = bench.job(["plain"], collector="sustained", longest_s=0.02)

    journal = bench.run(job)

    visits = select(journal, event="finished", phase="measure")
    assert [record["sustained"]["sets"] for record in visits] == [3, 3]
    assert len(select(journal, event="finished", phase="recheck")) == 1
    assert not select(journal, event="failed")


def test_a_burst_lasts_as_long_whatever_a_launch_takes(monkeypatch):
    chip = Gpu(settles_s=1e-3)
    monkeypatch.setattr(bursts, "new_mark", lambda _: Mark(chip))

    burst = burst_of(LaunchInTurn([chip.launch]), CpuDevice(), burst_s=0.025)

    begun_s = chip.now_s
    burst.make()
    assert chip.now_s - begun_s == pytest.approx(0.025, rel=0.1)
    assert burst.launches == 18
    assert not burst.in_graph


def test_a_host_that_is_too_slow_gets_a_graph_or_says_what_share_it_takes(monkeypatch):
    """Launches of 10 µs, of which the host takes 8: in a graph where they can be captured."""
    chip = Gpu(settles_s=1e-9)
    host = itertools.count(step=8e-6 * 200)
    monkeypatch.setattr(chip, "launch", lambda: setattr(chip, "now_s", chip.now_s + 1e-5))
    monkeypatch.setattr(bursts, "new_mark", lambda _: Mark(chip))
    monkeypatch.setattr(bursts, "on_cuda", lambda _: True)
    monkeypatch.setattr(bursts.time, "perf_counter", lambda: next(host))
    graphs = []

    def capture(launches, count):
        graphs.append(count)
        return SimpleNamespace(replay=lambda: [chip.launch() for _ in range(count)])

    monkeypatch.setattr(bursts, "captured_graph", capture)
    launch = LaunchInTurn([chip.launch] * 3)
    burst = burst_of(launch, CpuDevice())
    assert (graphs, burst.in_graph, burst.host_share) == ([1002], True, 0)
    assert burst.launches == 2004
    monkeypatch.setattr(bursts, "captured_graph", lambda launches, count: None)
    burst = burst_of(launch, CpuDevice())
    assert not burst.in_graph
    assert burst.host_share == pytest.approx(0.8)
