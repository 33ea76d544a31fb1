"""The reference page of metrics, written from the catalogue (`docs/metrics.md`)."""

from profiler.metrics.catalogue import CATALOGUE, DEFAULT, GROUPS, Combine, PassClass
from profiler.metrics.passes import conflicts
from profiler.metrics.queries import CHIPS, COMMONEST_CAPABILITY, ncu_names

_HEAD = """\
# Metrics

This page is written from the catalogue by `make numbers`.

`collect.metrics` in a spec takes these names, names of groups, and raw names of ncu such as
`lts__t_sectors.sum`. The cell names a metric that did not come back, and never shows it as 0.
"""

_CLASSES = {
    PassClass.TIMING: (
        "Timing",
        "Durations come from every visit. Cycles come from the confirmation and once from each "
        "cell beside its counters, or from every visit if nothing else is counted.",
    ),
    PassClass.SINGLE: (
        "One pass",
        "Collected in one pass over the kernel. The GPU decides which metrics share a pass "
        "(below). Metrics that do not share one have a session each, if launches are many and no "
        "metric needs several passes by itself: two launches cost less than one that ncu replays.",
    ),
    PassClass.MULTI: (
        "Several passes",
        "ncu saves the memory that the kernel writes to and replays the kernel. If a metric needs "
        "several passes, metrics of one pass usually cost least in the same session.",
    ),
    PassClass.STATIC: ("At no cost", "Facts of the launch and of the build, and the timer."),
    PassClass.DERIVED: (
        "Derived",
        "Computed from other metrics, from statements of the workload about the cell (`cell.`) "
        "and from facts of the GPU (`gpu.`). A quotient by 0 is missing.",
    ),
}

_COMBINE = {
    Combine.SUM: "added",
    Combine.MAX: "the largest",
    Combine.MIN: "the smallest",
    Combine.RATIO_OF_SUMS: "recomputed from the sums of its parts; weighted by time without them",
}


def page():
    """The whole page as Markdown."""
    parts = [_HEAD, *_groups()]
    for pass_class, (title, explanation) in _CLASSES.items():
        parts.append(f"\n## {title}\n\n{explanation}\n")
        parts.extend(
            _entry(metric) for metric in CATALOGUE.values() if metric.pass_class is pass_class
        )
    return "".join([*parts, *_conflicts()])


def _conflicts():
    yield (
        "\n## Not in the same pass\n\n"
        "The smallest sets of metrics that ncu replays a kernel for, on compute capability "
        f"{COMMONEST_CAPABILITY}; a single metric needs several passes by itself. The sets are "
        "from NVIDIA's library, which was right about all sets that were tried on an H200 "
        "(`benchmarks/speed/predicted_passes.py`). Sets for "
        f"{', '.join(version for version in CHIPS if version != COMMONEST_CAPABILITY)} stand in "
        "`profiler/metrics/chips/conflicts.json`.\n\n"
    )
    for conflict in sorted(
        map(sorted, conflicts(COMMONEST_CAPABILITY)), key=lambda names: (len(names), names)
    ):
        yield f"- {', '.join(f'`{name}`' for name in conflict)}\n"


def _groups():
    yield "\n## Groups\n\n| group | metrics |\n|---|---|\n"
    for name, metrics in GROUPS.items():
        yield f"| `{name}` | {', '.join(f'`{metric}`' for metric in metrics)} |\n"


def _entry(metric):
    facts = [
        ("unit", metric.unit or "count"),
        ("better", metric.better or "neither"),
        ("source", metric.source),
        ("ncu", _ncu(metric)),
        ("formula", f"`{metric.formula}`" if metric.formula else ""),
        ("needs", ", ".join(f"`{name}`" for name in metric.needs)),
        ("several kernels", _combined(metric)),
    ]
    lines = "".join(f"- {key}: {value}\n" for key, value in facts if value)
    return f"\n### `{metric.name}`\n\n**{metric.label}.** {metric.definition}\n\n{lines}"


def _ncu(metric):
    names = [
        f"{'' if key == DEFAULT else f'compute capability {key}: '}{f'`{raw}`' if raw else 'none'}"
        for key, raw in metric.ncu.items()
    ]
    beside = [f"`{raw}`" for raw in ncu_names([metric.name]) if raw not in metric.ncu.values()]
    return "; ".join([*names, *(["with " + ", ".join(beside)] if beside and metric.ncu else [])])


def _combined(metric):
    if not metric.ncu:
        return ""
    return _COMBINE.get(metric.combine, f"mean weighted by `{metric.weight}`")
