"""Causes by how a grid fills the GPU: too few blocks, too few warps, idle SMs.

A launch has too few blocks, or more than fit at once; then the last of them, and how unevenly they
end, leave SMs idle. Warps that would fit but are not there are counted once each: those of a small
grid, those that a limit of the SM keeps away, and those that could be there and are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from profiler.analyse.why.kernel_profiles import (
    ACTIVE_AVERAGE,
    ELAPSED,
    WARPS_ACTIVE,
    WARPS_LAUNCHED,
    Detected,
    Evidence,
    Facts,
    KernelProfile,
    part,
)

MOST_WARPS = "sm__maximum_warps_per_active_cycle_pct"
_WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
_GRID = "launch__grid_size"
_WAVES = "launch__waves_per_multiprocessor"
_SMS = "launch__sm_count"
_SM_ACTIVE = "sm__cycles_active.avg"
_BUSIEST_SM = "sm__cycles_active.max"
_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "block size": "launch__occupancy_limit_warps",
    "blocks per SM": "launch__occupancy_limit_blocks",
}
_START_AND_END_CYCLES = 6_000
"""Cycles of a launch in which no SM has a warp, at most: 2,700 to 5,500 in kernels of 4 to 200 µs
on an H200. More is the difference between two passes, in which the two counters are taken."""


def waves(facts: Facts) -> float:
    """Blocks of the grid ÷ blocks that fit on all SMs at once; ncu prints two decimals of it."""
    grid, sms = facts.value(_GRID), facts.value(_SMS)
    blocks = min(occupancy_limits(facts.profile).values(), default=0.0)
    return grid / (sms * blocks) if sms and blocks else facts.value(_WAVES)


def occupancy_limits(profile: KernelProfile) -> dict[str, float]:
    """Most blocks on an SM by limiting resource, for the limits that were counted."""
    limits = {name: profile.value(raw) for name, raw in _LIMITS.items() if profile.value(raw) > 0}
    # Without shared memory ncu gives the most blocks of an SM as its limit.
    if limits.get("shared memory") == limits.get("blocks per SM"):
        limits.pop("shared memory", None)
    return limits


# ---- warps that are not there --------------------------------------------------------------------


def more_warps(facts: Facts, missing: float) -> float:
    """Share of the duration that the `missing` warps, as a share of an SM's warps, may hide.

    More warps hide waits for latencies, tensor cores included, as far as no unit is busy.
    """
    latencies = facts.waits("long_scoreboard", "short_scoreboard", "wait", "gmma")
    return missing * facts.idle * latencies


def active_warps(facts: Facts) -> float:
    """Warps in flight ÷ warps that an SM holds; theoretical occupancy where not counted.

    Over the cycles in which the SM has any warp.
    """
    return facts.percent(_WARPS) or facts.percent(MOST_WARPS)


def _occupancy(facts: Facts, limit: str) -> Detected:
    """Warps that `limit` keeps away, if it is the tightest and the grid has blocks for more.

    A grid of exactly one wave was made as large as the limit allows.
    """
    limits = occupancy_limits(facts.profile)
    theoretical, of_grid = facts.percent(MOST_WARPS), waves(facts)
    if not limits or not theoretical or limits.get(limit) != min(limits.values()):
        return 0.0, {}
    possible = 1.0 if math.isclose(of_grid, 1.0) else min(theoretical * of_grid, 1.0)
    return more_warps(facts, max(possible - theoretical, 0.0)), {
        "theoretical occupancy": Evidence(100 * theoretical, "%", MOST_WARPS),
        "blocks per SM": Evidence(limits[limit], "block", _LIMITS[limit]),
        "busiest unit": facts.busiest,
    }


def _unfilled_occupancy(facts: Facts) -> Detected:
    """Warps that would fit, of a grid that has them: blocks end before others have started."""
    theoretical, active = facts.percent(MOST_WARPS), active_warps(facts)
    if waves(facts) < 1:
        return 0.0, {}
    launched = facts.value(WARPS_LAUNCHED)
    life = facts.value(WARPS_ACTIVE) / launched if launched else 0.0
    return more_warps(facts, max(theoretical - active, 0.0)), {
        "occupancy": Evidence(100 * active, "%", _WARPS),
        "theoretical occupancy": Evidence(100 * theoretical, "%", MOST_WARPS),
        "life of a warp": Evidence(life, "cycle", WARPS_ACTIVE),
        "busiest unit": facts.busiest,
    }


# ---- SMs that have no warp -----------------------------------------------------------------------


def _idle_ends_share(facts: Facts) -> float:
    """Share of the elapsed cycles in which not even the busiest SM has a warp."""
    elapsed, busiest = facts.value(ELAPSED), facts.value(_BUSIEST_SM)
    return part(min(elapsed - busiest, _START_AND_END_CYCLES), elapsed) if busiest else 0.0


def _imbalance_share(facts: Facts) -> float:
    """Share of the elapsed cycles in which the busiest SM has a warp and the average SM none."""
    busiest, average = facts.value(_BUSIEST_SM), facts.value(_SM_ACTIVE)
    if not busiest:
        busiest, average = facts.value(ELAPSED), facts.value(ACTIVE_AVERAGE)
    return part(busiest - average, facts.value(ELAPSED)) if average else 0.0


def _empty_share(facts: Facts) -> float:
    """Block slots of the last wave without a block ÷ slots of all waves.

    Below one wave: blocks that SMs lack compared with the SMs that have the most.
    """
    of_grid, sms = waves(facts), facts.value(_SMS)
    full = facts.value(_GRID) / sms if of_grid < 1 and sms else of_grid
    return 1 - full / math.ceil(full) if full > 0 else 0.0


def _idle_evidence(facts: Facts) -> dict[str, Evidence]:
    return {
        "waves": Evidence(waves(facts), "wave/SM", _WAVES),
        "cycles without a warp": Evidence(100 * _imbalance_share(facts), "%", _SM_ACTIVE),
    }


def _idle_share_of_empty(facts: Facts) -> float:
    """Share of idle cycles by empty block slots, where these explain half of it or more."""
    uneven, empty = _imbalance_share(facts), _empty_share(facts)
    return min(uneven, empty) if empty >= uneven / 2 else 0.0


def _small_grid(facts: Facts) -> Detected:
    """Below one wave: SMs without a block, and warps that the other SMs lack."""
    blocks, sms = facts.value(_GRID), facts.value(_SMS)
    if not blocks or not sms or waves(facts) >= 1:
        return 0.0, {}
    idle = _idle_share_of_empty(facts)
    return idle + (1 - idle) * more_warps(facts, 1 - active_warps(facts)), {
        "blocks": Evidence(blocks, "block", _GRID),
        "SMs": Evidence(sms, "SM", _SMS),
        "occupancy": Evidence(100 * active_warps(facts), "%", _WARPS),
        "busiest unit": facts.busiest,
    }


def _tail_wave(facts: Facts) -> Detected:
    return (_idle_share_of_empty(facts) if waves(facts) >= 1 else 0.0), _idle_evidence(facts)


def _block_imbalance(facts: Facts) -> Detected:
    uneven, empty = _imbalance_share(facts), _empty_share(facts)
    return (0.0 if empty >= uneven / 2 else uneven - empty), _idle_evidence(facts)


def _launch_overhead(facts: Facts) -> Detected:
    elapsed, share = facts.value(ELAPSED), _idle_ends_share(facts)
    return share, {
        "cycles without a warp on any SM": Evidence(share * elapsed, "cycle", _BUSIEST_SM),
        "cycles of the launch": Evidence(elapsed, "cycle", ELAPSED),
    }


FILLING: Mapping[str, Callable[[Facts], Detected]] = {
    "occupancy_registers": partial(_occupancy, limit="registers"),
    "occupancy_shared_memory": partial(_occupancy, limit="shared memory"),
    "occupancy_block_size": partial(_occupancy, limit="block size"),
    "occupancy_blocks": partial(_occupancy, limit="blocks per SM"),
    "unfilled_occupancy": _unfilled_occupancy,
    "small_grid": _small_grid,
    "tail_wave": _tail_wave,
    "block_imbalance": _block_imbalance,
    "launch_overhead": _launch_overhead,
}
"""Detectors by cause."""
