"""Sampling the clocks of a made-up GPU, and what follows from the samples."""

import gzip
import threading

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.clocks import (
    MAX_REPEATS,
    THROTTLING,
    VISIT_COLUMNS,
    ClockReason,
    LaunchClocks,
    Repeats,
    clock_notices,
    launch_clocks,
    measured_visits,
    plan_repeats,
    reason_names,
    reason_shares,
    throttled_visits,
    with_whole_blocks,
)
from profiler.errors import ParseError
from profiler.machine.clock_sampler import ClockSampler
from profiler.notices import NoticeKind, text
from profiler.parse.clock_file import (
    CLOCK_COLUMNS,
    CLOCKS_FILE,
    PERIOD_S,
    empty_clocks,
    read_clocks,
)
from profiler.run_folder.folder import compress

WAIT_S = 30.0
HEADER = ",".join(CLOCK_COLUMNS) + "\n"


class FakeNvml:
    """One H200 near its power limit; `dies_after` polls nothing is answered any more.

    `polled` is set once it was asked often enough, `answers` overrides what it says.
    """

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        pass

    def __init__(self, answers=None, *, enough=3, dies_after=None, driver=True):
        self.answers = answers or {}
        self.enough, self.dies_after, self.driver = enough, dies_after, driver
        self.polls = self.open = 0
        self.polled = threading.Event()

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self.answer(name, *arguments)

    def answer(self, name, *arguments):
        if not self.driver:
            raise self.NVMLError("no driver")
        if name in ("nvmlInit", "nvmlShutdown"):
            self.open += 1 if name == "nvmlInit" else -1
            return None
        if name == "nvmlDeviceGetPowerUsage":
            self.polls += 1
            if self.polls > self.enough:
                self.polled.set()
        if self.dies_after is not None and self.polls > self.dies_after:
            raise self.NVMLError("GPU is lost")
        known = {
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetUUID": "GPU-secret",
            "nvmlDeviceGetClockInfo": {1: 1515, 2: 3201}.get(arguments[-1] if arguments else None),
            "nvmlDeviceGetCurrentClocksEventReasons": 4,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetPowerUsage": 690500,
        } | self.answers
        if isinstance(known[name], Exception):
            raise known[name]
        return known[name]


def sample(folder, nvml, gpu="GPU-secret", until=None):
    sampler = ClockSampler(folder, gpu, nvml=nvml, period_s=0.0)
    with sampler:
        assert (until or nvml.polled).wait(WAIT_S)
    return sampler


# ---- the sampler ----


def test_samples_are_written_while_the_session_runs(tmp_path):
    nvml = FakeNvml()
    sampler = ClockSampler(tmp_path, "GPU-secret", nvml=nvml, period_s=0.0)
    with sampler:
        assert nvml.polled.wait(WAIT_S)
        early = (tmp_path / CLOCKS_FILE).read_text()  # what a kill at this moment would leave
    assert early.startswith(HEADER)
    assert early.count("\n") > nvml.enough
    clocks = read_clocks(tmp_path / CLOCKS_FILE)
    assert len(clocks) >= nvml.enough
    first = clocks.iloc[0]
    assert (first["sm_mhz"], first["memory_mhz"], first["reasons"]) == (1515, 3201, 4)
    assert (first["temperature_c"], first["power_w"]) == (61, 690.5)
    assert clocks["time_s"].is_monotonic_increasing
    assert nvml.open == 0


def test_file_names_no_machine(tmp_path):
    sample(tmp_path, FakeNvml())
    assert "secret" not in (tmp_path / CLOCKS_FILE).read_text()


def test_gpu_can_be_named_by_its_index(tmp_path):
    sample(tmp_path, FakeNvml(), gpu="0")
    assert len(read_clocks(tmp_path / CLOCKS_FILE)) > 0


def test_a_second_sampler_goes_on_in_the_same_file_under_one_header(tmp_path):
    sample(tmp_path, FakeNvml())
    first = (tmp_path / CLOCKS_FILE).read_text()
    sample(tmp_path, FakeNvml())
    both = (tmp_path / CLOCKS_FILE).read_text()
    assert both.startswith(first)
    assert both.count("time_s") == 1
    assert len(read_clocks(tmp_path / CLOCKS_FILE)) == both.count("\n") - 1 > first.count("\n")


def test_what_the_gpu_does_not_tell_is_empty(tmp_path):
    error = FakeNvml.NVMLError("not supported")
    answers = {
        "nvmlDeviceGetPowerUsage": error,
        "nvmlDeviceGetCurrentClocksEventReasons": error,
    }
    sample(tmp_path, FakeNvml(answers))
    assert (tmp_path / CLOCKS_FILE).read_text().splitlines()[1].endswith(",1515,3201,,61,")
    first = read_clocks(tmp_path / CLOCKS_FILE).iloc[0]
    assert pd.isna(first["reasons"])
    assert pd.isna(first["power_w"])


@pytest.mark.parametrize(
    ("nvml", "gpu"),
    [
        (FakeNvml(driver=False), "GPU-secret"),
        (FakeNvml(), "GPU-other"),
        (FakeNvml(), None),
        (FakeNvml(dies_after=0), "0"),
        (FakeNvml({"nvmlDeviceGetTemperature": RuntimeError("odd")}), "0"),
    ],
)
def test_where_nvml_fails_there_is_no_file_and_no_error(tmp_path, nvml, gpu):
    sampler = ClockSampler(tmp_path, gpu, nvml=nvml, period_s=0.0)
    with sampler:
        if gpu is not None:
            sampler._thread.join(WAIT_S)
    assert not (tmp_path / CLOCKS_FILE).exists()
    assert nvml.open == 0


def test_a_gpu_that_is_lost_ends_the_sampling_and_keeps_its_rows(tmp_path):
    nvml = FakeNvml(dies_after=7)
    sampler = ClockSampler(tmp_path, "0", nvml=nvml, period_s=0.0)
    with sampler:
        sampler._thread.join(WAIT_S)
    assert not sampler._thread.is_alive()
    assert len(read_clocks(tmp_path / CLOCKS_FILE)) == 7
    assert nvml.open == 0


def test_one_silent_poll_does_not_end_it(tmp_path):
    nvml = FakeNvml(enough=6)
    asked = []

    def temperature():
        asked.append(1)
        if len(asked) == 3:
            raise nvml.NVMLError("busy")
        return 61

    answers = dict.fromkeys(
        ("nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons"),
        nvml.NVMLError("not supported"),
    )
    nvml.answers = answers | {"nvmlDeviceGetPowerUsage": nvml.NVMLError("not supported")}
    nvml.nvmlDeviceGetTemperature = lambda *_: temperature()
    sample(tmp_path, nvml)
    assert len(read_clocks(tmp_path / CLOCKS_FILE)) >= 5


def test_a_folder_that_cannot_be_written_costs_the_samples_only(tmp_path):
    nvml = FakeNvml()
    sampler = ClockSampler(tmp_path / "gone", "0", nvml=nvml, period_s=0.0)
    with sampler:
        sampler._thread.join(WAIT_S)
    assert not (tmp_path / "gone").exists()
    assert nvml.open == 0


def test_nvml_that_hangs_neither_holds_the_session_nor_writes_later(tmp_path, monkeypatch):
    monkeypatch.setattr("profiler.machine.clock_sampler._PATIENCE_S", 0.0)
    nvml, hanging, answer = FakeNvml(), threading.Event(), threading.Event()

    def hang(*_):
        hanging.set()
        assert answer.wait(WAIT_S)
        return 61

    nvml.nvmlDeviceGetTemperature = hang
    sampler = sample(tmp_path, nvml, until=hanging)
    assert sampler._thread.is_alive()
    answer.set()
    sampler._thread.join(WAIT_S)
    assert not (tmp_path / CLOCKS_FILE).exists()


def test_an_error_of_the_session_is_its_own(tmp_path):
    sampler = ClockSampler(tmp_path, "0", nvml=FakeNvml(), period_s=0.0)

    def session():
        with sampler:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        session()
    assert not sampler._thread.is_alive()


# ---- the file ----


def test_compressed_file_is_found_under_either_name(tmp_path):
    sample(tmp_path, FakeNvml())
    plain = read_clocks(tmp_path / CLOCKS_FILE)
    compress(tmp_path / CLOCKS_FILE)
    assert not (tmp_path / CLOCKS_FILE).exists()
    for name in (CLOCKS_FILE, f"{CLOCKS_FILE}.gz"):
        pd.testing.assert_frame_equal(read_clocks(tmp_path / name), plain)


@pytest.mark.parametrize("content", [None, "", HEADER, "time_s,sm_"])
def test_nothing_sampled_is_a_frame_without_rows(tmp_path, content):
    if content is not None:
        (tmp_path / CLOCKS_FILE).write_text(content)
    clocks = read_clocks(tmp_path / CLOCKS_FILE)
    pd.testing.assert_frame_equal(clocks, empty_clocks())
    assert tuple(clocks.columns) == CLOCK_COLUMNS
    assert str(clocks["reasons"].dtype) == "Int64"


def test_a_row_cut_off_by_a_kill_is_left_out(tmp_path):
    (tmp_path / CLOCKS_FILE).write_text(f"{HEADER}1.5,1980,3201,0,40,100\n1.52,1980,32")
    assert read_clocks(tmp_path / CLOCKS_FILE)["memory_mhz"].tolist() == [3201]


def test_rows_are_ordered_and_what_is_no_number_is_missing(tmp_path):
    rows = "3.0,1980,,8,,\nx,1,2,3,4,5\n2.0,fast,3201,-1,1.5,2\n1.0,1,2,0.5,3,4\n1,2,3,4,5,6,7\n"
    (tmp_path / CLOCKS_FILE).write_text(HEADER + rows)
    clocks = read_clocks(tmp_path / CLOCKS_FILE)
    assert clocks["time_s"].tolist() == [1.0, 2.0, 3.0]
    assert clocks["reasons"].isna().tolist() == [True, True, False]
    assert clocks["sm_mhz"].isna().tolist() == [False, True, False]


def test_damaged_files_are_told_by_name_alone(tmp_path):
    packed = tmp_path / f"{CLOCKS_FILE}.gz"
    packed.write_bytes(gzip.compress(HEADER.encode() * 100)[:30])
    with pytest.raises(ParseError, match=r"^clocks\.csv: damaged"):
        read_clocks(tmp_path / CLOCKS_FILE)
    packed.write_bytes(b"no gzip at all")
    with pytest.raises(ParseError, match="damaged"):
        read_clocks(packed)
    (tmp_path / CLOCKS_FILE).write_text("a,b\n1,2\n")
    with pytest.raises(ParseError, match="time_s"):
        read_clocks(tmp_path / CLOCKS_FILE)


# ---- reasons ----


def test_bits_have_the_values_and_names_of_nvml():
    pynvml = pytest.importorskip("pynvml")
    names = {
        ClockReason.GPU_IDLE: "GpuIdle",
        ClockReason.APPLICATIONS_CLOCKS_SETTING: "ApplicationsClocksSetting",
        ClockReason.SW_POWER_CAP: "SwPowerCap",
        ClockReason.HW_SLOWDOWN: "HwSlowdown",
        ClockReason.SYNC_BOOST: "SyncBoost",
        ClockReason.SW_THERMAL_SLOWDOWN: "SwThermalSlowdown",
        ClockReason.HW_THERMAL_SLOWDOWN: "HwThermalSlowdown",
        ClockReason.HW_POWER_BRAKE_SLOWDOWN: "HwPowerBrakeSlowdown",
        ClockReason.DISPLAY_CLOCK_SETTING: "DisplayClockSetting",
    }
    for reason, name in names.items():
        assert getattr(pynvml, f"nvmlClocksThrottleReason{name}") == reason


def test_bits_are_decoded():
    assert reason_names(0) == ()
    assert reason_names(0x4 | 0x40) == ("sw_power_cap", "hw_thermal_slowdown")
    assert reason_names(0x1 | 1 << 40) == ("gpu_idle", "bit_40")


def test_the_ordinary_state_of_a_machine_is_no_throttling():
    assert reason_names(THROTTLING) == (
        "hw_slowdown",
        "sw_thermal_slowdown",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
    )
    assert not THROTTLING & ClockReason.SW_POWER_CAP


# ---- visits ----


def clocks_of(*rows):
    """Frame of (time, SM MHz, reasons), with the temperature and power of a warm GPU."""
    frame = pd.DataFrame(rows, columns=["time_s", "sm_mhz", "reasons"])
    frame = frame.assign(memory_mhz=3201.0, temperature_c=60.0, power_w=500.0)
    return frame[list(CLOCK_COLUMNS)].astype(
        dict.fromkeys(CLOCK_COLUMNS, "float64") | {"reasons": "Int64"}
    )


def record(event, time, cell, block, phase="measure", **more):
    return {"event": event, "time": time, "cell": cell, "block": block, "phase": phase, **more}


def test_visits_are_read_from_the_journal():
    visits = measured_visits(
        [
            {"event": "session_started", "time": 0.0},
            record("started", 0.5, "a", None, phase="warmup"),
            record("finished", 0.6, "a", None, phase="warmup"),
            record("started", 1.0, "a", 0),
            record("finished", 1.5, "a", 0, durations_ns=[5]),
            record("started", 2.0, "a", 0, arm=1),
            record("finished", 2.5, "a", 0, arm=1),
            record("started", 3.0, "b", 0),
            record("failed", 3.1, "b", 0),
            record("started", 4.0, "c", 1),
        ]
    )
    assert tuple(visits.columns) == VISIT_COLUMNS
    assert visits.to_numpy().tolist() == [
        ["a", 0, 0, 1.0, 1.5],
        ["a", 0, 1, 2.0, 2.5],
    ]
    nothing = measured_visits([])
    assert tuple(nothing.columns) == VISIT_COLUMNS
    assert nothing.empty


def visit_frame(visits):
    """Visits as `measured_visits` has them."""
    frame = pd.DataFrame(visits, columns=list(VISIT_COLUMNS))
    return frame.astype({"start_s": "float64", "end_s": "float64"})


def test_a_visit_is_throttled_by_any_sample_within_a_period_of_it():
    clocks = clocks_of((1.0, 1000, 0x40), (2.0, 1980, 0x4), (3.0, 1980, 0x1))
    near, far = 0.9 * PERIOD_S, 1.1 * PERIOD_S
    visits = [
        ("around", 0, 0, 0.5, 1.5),
        ("before", 0, 0, 0.5, 1.0 - near),
        ("after", 1, 0, 1.0 + near, 1.5),
        ("too early", 0, 0, 0.5, 1.0 - far),
        ("too late", 0, 0, 1.0 + far, 1.5),
        ("capped", 0, 0, 1.9, 2.1),
        ("idle", 0, 0, 2.9, 3.1),
        ("unseen", 0, 0, 9.0, 9.1),
    ]
    throttled = {("around", 0, 0), ("before", 0, 0), ("after", 1, 0)}
    assert throttled_visits(clocks, visit_frame(visits)) == throttled
    backwards = clocks.iloc[::-1]
    assert throttled_visits(backwards, visit_frame(visits[::-1])) == throttled


@pytest.mark.parametrize("reason", list(ClockReason))
def test_only_throttling_reasons_throttle(reason):
    clocks = clocks_of((1.0, 1980, int(reason)))
    throttled = throttled_visits(clocks, visit_frame([("a", 0, 0, 1.0, 1.0)]))
    assert bool(throttled) == bool(reason & THROTTLING)


def test_reasons_that_are_not_known_throttle_nothing():
    clocks = clocks_of((1.0, 1980, None), (1.01, 1980, None))
    visits = [("a", 0, 0, 1.0, 1.0)]
    assert throttled_visits(clocks, visit_frame(visits)) == set()
    assert reason_shares(clocks, visit_frame(visits)) == {}


def test_nothing_to_look_at():
    visits = [("a", 0, 0, 1.0, 2.0)]
    assert throttled_visits(empty_clocks(), visit_frame(visits)) == set()
    assert throttled_visits(clocks_of((1.0, 1980, 8)), visit_frame([])) == set()
    assert reason_shares(empty_clocks(), visit_frame(visits)) == {}
    assert reason_shares(clocks_of((1.0, 1980, 8)), visit_frame([])) == {}
    assert reason_shares(empty_clocks(), measured_visits([])) == {}


def test_thousands_of_visits_agree_with_looking_at_each_of_them():
    generator = np.random.default_rng(4)
    times = np.cumsum(generator.uniform(0.015, 0.04, 40_000))
    reasons = generator.choice([0, 1, 4, 8, 0x20, 0x80], 40_000, p=[0.5, 0.2, 0.27, *[0.01] * 3])
    clocks = clocks_of(*zip(times, generator.integers(1400, 1981, 40_000), reasons, strict=True))
    starts = np.sort(generator.uniform(-1, times[-1] + 1, 5_000))
    ends = starts + generator.exponential(0.05, 5_000)
    visits = [
        (f"c{n % 7}", n, 0, start, end)
        for n, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    slowly, capped, sampled = set(), 0, 0
    for visit in visits:
        window = (times >= visit[3] - PERIOD_S) & (times <= visit[4] + PERIOD_S)
        if np.any(reasons[window] & int(THROTTLING)):
            slowly.add(visit[:3])
        capped += np.any(reasons[window] & int(ClockReason.SW_POWER_CAP))
        sampled += window.any()
    assert 0 < len(slowly) < len(visits)
    assert throttled_visits(clocks, visit_frame(visits)) == slowly
    share = reason_shares(clocks, visit_frame(visits))["sw_power_cap"]
    assert share == pytest.approx(capped / sampled)


# ---- facts ----


def busy_session():
    clocks = clocks_of(
        (0.0, 345, 0x1),
        (1.0, 1500, 0x4),
        (1.1, 1600, 0x4),
        (2.0, 1980, 0x0),
        (3.0, 345, 0x1),
        (5.0, 1410, 0x44),
    )
    visits = [("a", 0, 0, 1.0, 1.2), ("b", 0, 0, 1.95, 2.05), ("c", 0, 0, 2.95, 3.05)]
    return clocks, visit_frame(visits)


def test_shares_of_reasons_are_those_of_the_visits():
    shares = reason_shares(*busy_session())
    assert shares == pytest.approx({"gpu_idle": 1 / 3, "sw_power_cap": 1 / 3})


def test_the_clock_of_a_launch_is_its_cycles_by_its_duration():
    launches = pd.DataFrame(
        {
            "kernel": ["a", "a", "b", "b", "c"],
            "duration_ns": [1000.0, 1000.0, 500.0, 500.0, 400.0],
            "cycles": [1600.0, 2000.0, 600.0, np.nan, np.nan],
        }
    )
    assert launch_clocks(launches) == LaunchClocks(1200.0, 2000.0, pytest.approx(0.2))
    assert launch_clocks(launches[launches["kernel"] == "c"]) is None


# ---- repeats ----

A, B, C = ("a", 0, 0), ("b", 0, 0), ("c", 1, 0)
PROBLEMS = {"a": "p", "b": "p", "c": "p", "d": "q"}


def test_a_throttled_visit_takes_its_block_with_it():
    other_problem, other_arm = ("d", 0, 0), ("a", 0, 1)
    measured = {A, B, C, other_problem, other_arm}
    assert with_whole_blocks({B}, measured, PROBLEMS) == {A, B, other_arm}
    assert with_whole_blocks(set(), measured, PROBLEMS) == set()


def test_repeats_before_anything_and_without_throttling():
    nothing = frozenset()
    assert plan_repeats([]) == Repeats(nothing, (), nothing, nothing)
    clean = plan_repeats([({A, B}, set()), ({C}, set())])
    assert clean == Repeats(nothing, (nothing, nothing), nothing, nothing)


def test_the_first_clean_measurement_counts():
    plan = plan_repeats([({A, B}, {A})])
    assert (plan.to_repeat, plan.unused, plan.throttled) == ({A}, (frozenset(),), {A})
    plan = plan_repeats([({A, B}, {A}), ({A}, set()), ({A}, set())])
    assert (plan.to_repeat, plan.throttled, plan.cured) == (set(), set(), {A})
    assert plan.unused == ({A}, set(), {A})


def test_repeats_are_bounded_and_then_the_first_measurement_counts():
    attempts = [({A, C}, {A})]
    rounds = 0
    while plan_repeats(attempts).to_repeat:
        attempts.append(({A}, {A}))
        rounds += 1
    assert rounds == MAX_REPEATS
    plan = plan_repeats(attempts)
    assert (plan.throttled, plan.cured) == ({A}, set())
    assert plan.unused == (set(), *[{A}] * MAX_REPEATS)


# ---- notices ----


def notices(shares, launches, attempts=()):
    found = clock_notices("ncu-timing", shares, launches, plan_repeats(attempts), PROBLEMS)
    return {notice.kind: text(notice) for notice in found}


def test_a_quiet_session_says_nothing():
    steady = LaunchClocks(1950.0, 1980.0, 0.01)
    assert notices({"gpu_idle": 0.9}, steady, [({A, B}, set())]) == {}
    assert notices({}, None, [({A, B}, set())]) == {}


def test_blocks_are_counted_not_visits():
    shares = {"hw_slowdown": 0.5, "sw_thermal_slowdown": 0.1}
    said = notices(shares, None, [({A, B, C}, {A, B, C}), ({A, B}, set())])
    cured = said[NoticeKind.BLOCKS_THROTTLED_MEASURED_AGAIN]
    assert "throttled (hw slowdown, sw thermal slowdown) during 1 block, which was" in cured
    still = said[NoticeKind.BLOCKS_STILL_THROTTLED]
    assert "1 block has no measurement without throttling" in still
    assert f"at most {MAX_REPEATS} repeats" in still


def test_power_limit_and_moving_clock_are_told_with_the_clocks_of_launches():
    said = notices(reason_shares(*busy_session()), LaunchClocks(1550.0, 1980.0, 0.217))
    clocks = "1550 to 1980 MHz (cycles ÷ duration of each)"
    assert f"during 33 % of the visits; its launches ran at {clocks}" in said.pop(
        NoticeKind.POWER_CAPPED
    )
    assert f"moved by 21.7 % between its launches; all ran at {clocks}" in said.pop(
        NoticeKind.CLOCK_SPREAD
    )
    assert said == {}


def test_power_limit_of_launches_without_cycles():
    said = notices({"sw_power_cap": 0.004}, None)
    words = "during less than 1 % of the visits; its launches counted no cycles"
    assert words in said.pop(NoticeKind.POWER_CAPPED)
    assert said == {}
