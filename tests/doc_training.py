"""Tables of the training step in docs/timelines.md, from its recording."""

from functools import partial

from doc_tables import findings_of, median, table, time, word

from profiler.render.words.numbers import TIMES

VARIANTS = ("eager", "compile", "graphs")
MB = 1e6


def _cells(optimizer):
    """Findings, the cells of the step by variant, and their timelines."""
    findings = findings_of("mlp")
    (problem,) = (p for p in findings.programs.problems if p.params["optimizer"] == optimizer)
    cells = {name: findings.programs.by_place[name, problem.id] for name in VARIANTS}
    return findings, cells, {name: findings.timelines.by_cell[c.id] for name, c in cells.items()}


def _counted(timeline, metric, depth=1):
    """Counter of the step (depth 1) or of its phases (2) under ncu, by name of the range."""
    rows = timeline.counters[timeline.counters["depth"] == depth]
    return dict(zip(rows["name"], rows[metric], strict=True))


def _percent(share, digits=1):
    return f"{100 * share:.{digits}f} %"


def step(optimizer, title):
    """Table of a step with or without Adam; durations are medians."""
    findings, cells, timelines = _cells(optimizer)
    phases = {
        name: {phase.name or "whole": phase for phase in timeline.phases}
        for name, timeline in timelines.items()
    }
    names = timelines["eager"].phase_names
    together = " + ".join(f"`{name}`" for name in names)

    def row(head, of):
        return (head, *(of(name) for name in VARIANTS))

    def kernels(name):
        counted = _counted(timelines[name], "kernels", 2)
        return " + ".join(f"{counted[phase]:.0f}" for phase in names)

    def moved(name):
        (read,) = _counted(timelines[name], "dram_read_bytes").values()
        (written,) = _counted(timelines[name], "dram_write_bytes").values()
        return f"{read / MB:.0f} + {written / MB:.1f} MB"

    def compiled(name):
        seconds = median(findings, cells[name], "compile_s") if name == "compile" else None
        return "" if seconds is None else f"{seconds:.1f} s"

    def by_events(name):
        return median(findings, cells[name])

    def under_ncu(name):
        (duration,) = _counted(timelines[name], "duration_ns").values()
        return time(duration)

    whole = {name: of_phases["whole"] for name, of_phases in phases.items()}
    rows = [
        row("kernels in a step", lambda v: f"{median(findings, cells[v], 'kernels'):.0f}"),
        row(f"of them in {together}", kernels),
        row("time of a step by events", lambda v: time(by_events(v))),
        row("time of a step in the timeline", lambda v: time(timelines[v].launch_ns)),
        row("time of its kernels, copies and memsets in the timeline",
            lambda v: time(whole[v].gpu_ns)),
        row("time in which the GPU was idle, recorded", lambda v: time(whole[v].idle_ns)),
        *(
            row(f"busy share of `{phase}`, recorded",
                lambda v, phase=phase: _percent(phases[v][phase].busy_share))
            for phase in names
        ),
        row("busy share of the whole step, recorded", lambda v: _percent(whole[v].busy_share)),
        row("time of kernels ÷ time by events",
            lambda v: _percent(whole[v].gpu_ns / by_events(v), 0)),
        row("kernels by ncu, behind a flush of the L2 cache each", under_ncu),
        row("bytes read + written, by ncu", moved),
        row("peak memory of a step",
            lambda v: f"{median(findings, cells[v], 'peak_bytes') / MB:.1f} MB"),
        row("compiling", compiled),
    ]  # fmt: skip
    return table((title, *VARIANTS), rows)


def against_eager():
    """Ratios and verdicts against eager code, and what recording costs, as a table."""
    rows = []
    for optimizer, title in (("none", "without Adam"), ("adam", "with Adam")):
        findings, cells, timelines = _cells(optimizer)
        eager = timelines["eager"].whole_unit.gpu_ns
        for name in ("compile", "graphs"):
            verdict = findings.verdicts.verdict_on(cells[name], cells["eager"])
            rows.append(
                (
                    f"{name}, {title}",
                    f"{verdict.ratio:.3f}{TIMES}, {word(verdict)}",
                    f"{timelines[name].whole_unit.gpu_ns / eager:.3f}{TIMES}",
                    f"{timelines[name].slowdown:.2f}{TIMES}",
                )
            )
        rows.append((f"eager, {title}", "", "", f"{timelines['eager'].slowdown:.2f}{TIMES}"))
    heads = ("time by events ÷ eager", "time of kernels ÷ eager", "step recorded ÷ by events")
    return table(("", *heads), rows)


TRAINING_BLOCKS = {
    "mlp-without-adam": partial(step, "none", "without Adam"),
    "mlp-with-adam": partial(step, "adam", "with Adam"),
    "mlp-against-eager": against_eager,
}
