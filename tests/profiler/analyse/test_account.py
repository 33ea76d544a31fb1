"""The account of a difference adds up, whatever the counters are, and is that of real kernels."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from profiler.analyse.why import account as accounts
from profiler.analyse.why.kernel_profiles import (
    LATENCY,
    KernelProfile,
    stall_per_issue,
    stall_per_warp,
)

# Two kernels on one H200 (ncu 2025.3.1): FlashAttention-2 and cuDNN, batch 4, 16 heads, length
# 4096, head dimension 128, bf16; stall reasons as printed, to two decimals.
FLASH = {
    "gpu__time_duration.sum": 1547168.0,
    "sm__cycles_elapsed.max": 2777902.0,
    "smsp__cycles_active.sum": 1422556504.0,
    "smsp__cycles_active.avg": 2694235.80,
    "smsp__warps_active.sum": 2789294222.0,
    "smsp__inst_issued.sum": 646337623.0,
}
FLASH_STALLS = {
    "barrier": 0.10,
    "branch_resolving": 0.01,
    "dispatch_stall": 0.20,
    "drain": 0.01,
    "long_scoreboard": 0.12,
    "math_pipe_throttle": 0.66,
    "mio_throttle": 0.07,
    "no_instruction": 0.02,
    "not_selected": 0.46,
    "selected": 1.00,
    "short_scoreboard": 0.32,
    "wait": 1.34,
    "gmma": 0.0,
}
CUDNN = {
    "gpu__time_duration.sum": 827072.0,
    "sm__cycles_elapsed.max": 1386532.0,
    "smsp__cycles_active.sum": 706416612.0,
    "smsp__cycles_active.avg": 1337910.25,
    "smsp__warps_active.sum": 706416612.0 * 2.26,
    "smsp__inst_issued.sum": 706416612.0 * 2.26 / 5.11,
}
CUDNN_STALLS = {
    "barrier": 1.37,
    "branch_resolving": 0.02,
    "dispatch_stall": 0.56,
    "gmma": 0.04,
    "long_scoreboard": 0.61,
    "math_pipe_throttle": 0.07,
    "mio_throttle": 0.02,
    "no_instruction": 0.09,
    "not_selected": 0.25,
    "selected": 1.0,
    "short_scoreboard": 0.20,
    "wait": 0.89,
}


def profile(values, stalls, name="kernel"):
    waits = {stall_per_issue(reason): cycles for reason, cycles in stalls.items()}
    return KernelProfile(name, {**values, **waits})


def parts_of(account):
    return {part.name: part.ns for part in account.parts}


def test_the_identity_closes_on_a_real_kernel():
    time = accounts.kernel_time(profile(FLASH, FLASH_STALLS))
    assert time.residual == pytest.approx(1, abs=0.003)
    assert time.warps == pytest.approx(1.961, abs=1e-3)
    assert time.clock_ghz == pytest.approx(1.7955, abs=1e-4)


def test_what_flash_attention_takes_more_than_cudnn():
    account = accounts.account([profile(FLASH, FLASH_STALLS)], [profile(CUDNN, CUDNN_STALLS)])
    parts = parts_of(account)
    assert account.closes
    assert account.difference_ns == pytest.approx(720096)
    assert sum(parts.values()) == pytest.approx(account.difference_ns, rel=1e-12)
    # Twice the instructions; fewer of its warps wait at barriers; a higher clock.
    assert parts[accounts.INSTRUCTIONS] > 0.5 * account.difference_ns
    assert parts["stall:barrier"] < 0
    assert parts[accounts.CLOCK] < 0
    assert account.parts[0].name == accounts.INSTRUCTIONS
    # A reason that only cuDNN waits for counts with its whole part.
    assert parts["stall:gmma"] == pytest.approx(-827072 * 0.04 / sum(CUDNN_STALLS.values()))


def test_digits_are_taken_from_the_larger_numbers():
    values = {**FLASH, "smsp__warps_launched.sum": 32768.0, stall_per_warp("wait"): 26430.12}
    stalls = profile(values, FLASH_STALLS).stalls()
    assert stalls["wait"] == pytest.approx(26430.12 * 32768 / 646337623, rel=1e-12)
    assert stalls["barrier"] == 0.10  # of which only two decimals are known


@pytest.mark.parametrize("missing", [*FLASH, *(stall_per_issue(reason) for reason in FLASH_STALLS)])
def test_without_a_counter_there_is_no_account(missing):
    flash = profile(FLASH, FLASH_STALLS)
    values = {name: value for name, value in flash.values.items() if name != missing}
    less = KernelProfile("kernel", values)
    if missing in FLASH:
        assert accounts.account([less], [flash]) is None
        assert accounts.account([flash], [less]) is None
    else:  # a reason that this GPU does not count: the identity says how much it lacks
        lacking = FLASH_STALLS[missing.split("stalled_")[1].split("_per_issue")[0]]
        time = accounts.kernel_time(less)
        assert time.residual > 1 or lacking < 0.02


def test_without_a_reason_that_ncu_counts_there_is_no_account():
    """The parts of the others were once told in its place, as of several passes."""
    values = {**FLASH, LATENCY: sum(FLASH_STALLS.values())}
    others = {reason: cycles for reason, cycles in FLASH_STALLS.items() if reason != "wait"}
    complete, lacking = profile(values, FLASH_STALLS), profile(values, others)
    assert accounts.kernel_time(complete) is not None
    assert accounts.kernel_time(lacking) is None
    assert lacking.latency == complete.latency, "shares of waits are of all of the time"


def test_kernels_that_one_side_alone_launches_stand_with_their_durations():
    flash = profile(FLASH, FLASH_STALLS, "flash")
    fill = profile({**CUDNN, "gpu__time_duration.sum": 827000.0}, CUDNN_STALLS, "fill")
    account = accounts.account([flash, fill, fill], [flash])
    assert parts_of(account)["kernel:fill"] == pytest.approx(2 * 827000.0)
    assert account.difference_ns == pytest.approx(2 * 827000.0)
    assert account.pooled == ((), ()), "there is nothing to compare them with"
    reverse = accounts.account([flash], [flash, fill])
    assert parts_of(reverse)["kernel:fill"] == pytest.approx(-827000.0)


def test_a_fused_kernel_is_compared_with_all_that_it_stands_for():
    flash, cudnn = profile(FLASH, FLASH_STALLS, "flash"), profile(CUDNN, CUDNN_STALLS, "cudnn")
    fill = profile({**CUDNN, "gpu__time_duration.sum": 827000.0}, CUDNN_STALLS, "fill")
    account = accounts.account([flash, fill, fill], [flash, cudnn])
    parts = parts_of(account)
    assert account.pooled == (("fill", "fill"), ("cudnn",))
    assert account.difference_ns == pytest.approx(827000.0 * 2 - 827072.0)
    assert sum(parts.values()) == pytest.approx(account.difference_ns, rel=1e-12)
    assert account.closes, "the identity holds of several kernels as it does of each"
    # Two like the other: twice the instructions, and waits for twice as much of the tensor cores.
    twice = parts[accounts.INSTRUCTIONS] + parts[f"{accounts.STALL}gmma"]
    assert twice == pytest.approx(account.difference_ns, rel=1e-3)


def test_waits_for_tensor_cores_are_no_shorter_beside_more_instructions():
    """Four times the instructions, each of which waits a quarter as long: as long for products."""
    more = {**CUDNN, "smsp__inst_issued.sum": 4 * CUDNN["smsp__inst_issued.sum"]}
    quarter = {reason: cycles / 4 for reason, cycles in CUDNN_STALLS.items()}
    account = accounts.account([profile(more, quarter)], [profile(CUDNN, CUDNN_STALLS)])
    parts = parts_of(account)
    assert parts[f"{accounts.STALL}gmma"] == pytest.approx(0, abs=1e-6)
    assert parts[f"{accounts.STALL}wait"] < 0 < parts[accounts.INSTRUCTIONS]
    assert not any(name.startswith(accounts.ONE_SIDED) for name in parts)


def test_several_kernels_wait_as_they_do_by_their_instructions():
    flash, cudnn = profile(FLASH, FLASH_STALLS, "flash"), profile(CUDNN, CUDNN_STALLS, "cudnn")
    both = accounts.account([flash, cudnn], [profile(FLASH, FLASH_STALLS, "other")])
    issued = [kernel["smsp__inst_issued.sum"] for kernel in (FLASH, CUDNN)]
    latency = sum(
        count * sum(stalls.values())
        for count, stalls in zip(issued, (FLASH_STALLS, CUDNN_STALLS), strict=True)
    ) / sum(issued)
    stalls = {name: ns for name, ns in parts_of(both).items() if name.startswith("stall:")}
    assert (sum(stalls.values()) > 0) == (latency > sum(FLASH_STALLS.values()))
    assert both.residual == pytest.approx(0.0, abs=0.003)


def test_the_same_launch_differs_in_nothing():
    flash = profile(FLASH, FLASH_STALLS)
    account = accounts.account([flash], [flash])
    assert account.difference_ns == 0
    assert all(part.ns == 0 for part in account.parts)


positive = st.floats(min_value=1e-3, max_value=1e9)
reasons = st.dictionaries(
    st.sampled_from(sorted(FLASH_STALLS)), st.just(0.0) | st.floats(1e-3, 100), min_size=1
).filter(lambda stalls: sum(stalls.values()) > 0)


@given(
    first=st.tuples(st.lists(positive, min_size=6, max_size=6), reasons),
    second=st.tuples(st.lists(positive, min_size=6, max_size=6), reasons),
)
def test_parts_add_up_whatever_was_counted(first, second):
    sides = [
        profile(dict(zip(FLASH, values, strict=True)), stalls) for values, stalls in (first, second)
    ]
    other = KernelProfile("other", sides[0].values)
    for firsts in (sides[:1], [other, other]):
        account = accounts.account(firsts, sides[1:])
        total = sum(part.ns for part in account.parts)
        scale = max(account.first_ns, account.second_ns, *(abs(part.ns) for part in account.parts))
        assert math.isclose(total, account.difference_ns, rel_tol=1e-9, abs_tol=1e-9 * scale)


@given(first=positive, second=positive)
@example(first=999_999_970.0, second=999_999_978.0)
def test_the_logarithmic_mean_lies_between(first, second):
    mean = accounts.logarithmic_mean(first, second)
    slack = 1e-9 * max(first, second)
    assert min(first, second) - slack <= mean <= max(first, second) + slack
