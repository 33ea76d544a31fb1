"""The reference page of collectors, written from the registry (`docs/collectors.md`)."""

from profiler.collect import Records
from profiler.collect.registry import COLLECTORS

_HEAD = """\
# Collectors

This page is written from the registry by `make numbers`.

`collect.collectors` in a spec takes these names. Their durations are different quantities and are
never mixed. The first collector in this order that measured gives `duration_ns`, which verdicts
use. Durations of the others are metrics of their own.

A new timer needs

- a `CollectorKind` in `profiler/collect/timer.py`, in its `TIMERS`;
- a stopwatch of the same name in `runner/timing.py`;
- a metric in `profiler/metrics/catalogue.py`.

A collector under another tool has a file of its own in `profiler/collect/`, and a place in
`registry.py`.
"""

_RECORDS = {
    Records.COUNTERS: "a session of timing blocks, and sessions of hardware counters",
    Records.TIMES: "a session of timing blocks",
    Records.TIMELINE: "a session of timelines, after all others",
    Records.STAMPS: "a session of one launch per cell, after all others",
}


def page():
    """The whole page as Markdown."""
    return _HEAD + "".join(_entry(kind) for kind in COLLECTORS.values())


def _entry(kind):
    facts = [
        ("also called", f"`{kind.alias}`" if kind.alias is not None else ""),
        ("sessions", _RECORDS[kind.records]),
        ("judged", "yes" if kind.judged else "never"),
        ("metric beside another", f"`{kind.metric}`" if kind.metric else ""),
        ("samples", "in the runner's journal" if kind.in_journal else "in the tool's files"),
        ("needs", ", ".join(sorted(kind.needs))),
        ("settings", ", ".join(f"`collect.{name}`" for name in kind.settings)),
        ("external commands", "yes" if kind.measures_commands else "no"),
    ]
    lines = "".join(f"- {key}: {value}\n" for key, value in facts if value)
    return f"\n## `{kind.name}`\n\n**{kind.title}**: {kind.measures}.\n\n{lines}"
