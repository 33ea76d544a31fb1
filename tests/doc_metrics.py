"""The reference page of metrics, written from the catalogue (`docs/metrics.md`)."""

from profiler.metrics.catalogue import CATALOGUE, DEFAULT, GROUPS, Combine, PassClass
from profiler.metrics.passes import conflicts
from profiler.metrics.queries import CHIPS, COMMONEST_CAPABILITY, ncu_names

_HEAD = """\
# Metrics

This page is written from the catalogue by `make numbers`.

`collect.metrics` in a spec takes these names, names of groups, and raw names of ncu such as
`lts__t_sectors.sum`. A metric that did not come back is named in the cell; it is never shown as 0.
"""

_CLASSES = {
    PassClass.TIMING: (
        "Timing",
        "The duration of every visit. Cycles of the confirmation, and once of each cell beside its "
        "counters; of every visit where nothing else is counted.",
    ),
    PassClass.SINGLE: (
        "One pass",
        "Collected in one pass over the kernel. Which of them share one depends on the GPU "
        "(below). Those that do not have a session each where launches are many and nothing needs "
        "several passes by itself: two launches cost less than one that ncu replays.",
    ),
    PassClass.MULTI: (
        "Several passes",
        "ncu saves what the kernel writes to and replays it. Where a metric needs this, those of "
        "one pass usually cost least in the same session.",
    ),
    PassClass.STATIC: ("At no cost", "Facts of the launch and of the build, and the timer."),
    PassClass.DERIVED: (
        "Derived",
        "Computed from other metrics, from what the workload states for the cell (`cell.`) and "
        "from what is known of the GPU (`gpu.`). A quotient by 0 is missing.",
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
        f"{COMMONEST_CAPABILITY}; one by itself needs several passes. NVIDIA's library says so, "
        "and of those that were tried on an H200 it was right "
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
