"""Power and energy of launches, from what NVML said of the GPU while a visit lasted.

NVML's power is a mean over the last second on GPUs since Ampere (GA100 left out), by its own
documentation of `nvmlDeviceGetPowerUsage`. So it says something of a launch only where the same
launch was repeated for longer than that, with little else between: most visits have none.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

AVERAGED_S = 1.0
"""Time over which NVML averages: samples this soon after the begin also hold what was before."""
FEWEST_SAMPLES = 5
"""As many are a tenth of a second at the sampler's period; the sensor is read no more often."""
LEAST_SHARE = 0.9
"""Share of a visit that its launches must fill: the rest is mostly the flush of the L2 cache."""
_NS_PER_S = 1e9
_VISIT = ["cell", "block", "arm"]


def add_power(samples: pd.DataFrame, visits: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """Samples of a timer with `power_w` and `energy_j` where their visit was long enough.

    `samples` have `duration_ns`, one row per launch; `visits` are those of the journal
    (`clocks.measured_visits`), `clocks` what was sampled meanwhile. Without a single value the
    columns are left out. A new frame.
    """
    if clocks["power_w"].isna().all() or samples.empty:
        return samples
    launched_ns = samples.groupby(_VISIT)["duration_ns"].sum()
    spans = zip(
        visits[_VISIT].itertuples(index=False, name=None),
        visits["start_s"].astype("float64"),
        visits["end_s"].astype("float64"),
        strict=True,
    )
    power_w = {
        key: _mean_power(clocks, start_s, end_s)
        for key, start_s, end_s in spans
        if launched_ns.get(key, 0.0) >= LEAST_SHARE * (end_s - start_s) * _NS_PER_S
    }
    keys = samples[_VISIT].itertuples(index=False, name=None)
    powers = np.array([power_w.get(key, np.nan) for key in keys], dtype="float64")
    if np.isnan(powers).all():
        return samples
    energy_j = powers * samples["duration_ns"].to_numpy(dtype="float64") / _NS_PER_S
    return samples.assign(power_w=powers, energy_j=energy_j)


def _mean_power(clocks: pd.DataFrame, start_s: float, end_s: float) -> float:
    """Mean power in watts of the samples that hold nothing from before; NaN for too few."""
    inside = clocks.loc[clocks["time_s"].between(start_s + AVERAGED_S, end_s), "power_w"].dropna()
    return float(inside.mean()) if len(inside) >= FEWEST_SAMPLES else float("nan")
