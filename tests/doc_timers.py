"""Tables of docs/timers.md: the same cells by several timers."""

from doc_tables import findings_of, table, time

from profiler.render.words.numbers import TIMES

WITH_HOST = ("timer", "torch_kernels", "nsys", "wall_clock")


def ratios_of_timers():
    """Time by each timer ÷ that of ncu over the cells of `timers`: mean and extremes."""
    findings = findings_of("timers")
    rows = []
    for row in findings.timers.overall.to_dict("records"):
        extremes = (
            f"{row[end]:.3f} ({_cell_words(findings, row[f'{end}_at'])})"
            for end in ("least", "most")
        )
        title = findings.timers.title(row["collector"])
        rows.append((title, f"{row['mean']:.2f}", *extremes))
    return table(("timer", f"geometric mean, {TIMES} ncu's", "least", "most"), rows)


def _cell_words(findings, cell_id):
    cell = findings.correct_cells[cell_id]
    return f"{cell.variant.label}, {cell.problem.name}"


def methods():
    """Cells of `timing_methods` by five timers, and the parts of the wall clock's error."""
    timers = findings_of("timing_methods").timers
    by_cell = timers.medians.pivot_table(index="cell", columns="collector", values="median")
    rows = []
    for error in timers.wall_clock.sort_values("reference").to_dict("records"):
        cell = findings_of("timing_methods").correct_cells[error["cell"]]
        shown = (time(by_cell.loc[cell.id, collector]) for collector in WITH_HOST)
        rows.append(
            (
                f"{cell.variant.label}, {cell.problem.params['rows']}",
                time(error["reference"]),
                *shown,
                f"{error['ratio']:.2f}",
                *(_signed(error[part]) for part in ("host", "caches")),
            )
        )
    head = ("kernel, rows", "ncu", "events", "torch.profiler", "nsys", "wall clock")
    parts = (f"wall clock, {TIMES} ncu", "of the host", "of caches, clocks, recording")
    return table((*head, *parts), rows)


def _signed(ns):
    """A difference with its sign."""
    sign = "+" if ns > 0 else "\u2212"
    return f"{sign}{time(abs(ns))}"
