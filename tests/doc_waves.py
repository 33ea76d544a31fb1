"""Tables of docs/waves.md, from its recording."""

from doc_tables import findings_of, table

from profiler.findings.kinds.waves import GOOD, RULE_BLOCKS_PER_SM
from profiler.render.words.numbers import TIMES


def _grids():
    """Grids of the recording by variant, in the order of the spec, with names."""
    findings = findings_of("waves")
    grids = findings.waves
    named = {variant.id: variant.name for variant in findings.programs.variants}
    return [(name, grids[grids["variant"] == key]) for key, name in named.items()]


def _blocks(count):
    return f"{round(count, 2):g}"


def _percent(share):
    return f"{100 * share:.1f} %"


def needs():
    """From where on each variant keeps its tail efficiency, and where it is least."""
    by_variant = {need.variant: need for need in findings_of("waves").steady_grids}
    rows = []
    for name, of_variant in _grids():
        need = by_variant[of_variant["variant"].iloc[0]]
        enough = of_variant[of_variant["blocks_per_sm"] >= RULE_BLOCKS_PER_SM]
        least = enough.loc[enough["efficiency"].idxmin()]
        numbers = (f"{need.waves:g}", f"{need.blocks_per_sm:g}", _percent(least["efficiency"]))
        rows.append((name, *numbers, _blocks(least["blocks_per_sm"])))
    head = ("good from, waves", "good from, blocks per SM")
    rule = f"{RULE_BLOCKS_PER_SM:g}"
    least_heads = (f"least efficiency from {rule} blocks per SM on", "there, blocks per SM")
    return table(("variant", *head, *least_heads), rows)


def below():
    """The grids that the rule of thumb allows and that are not good."""
    rows = []
    for name, of_variant in _grids():
        enough = of_variant["blocks_per_sm"] >= RULE_BLOCKS_PER_SM
        bad = of_variant[enough & (of_variant["efficiency"] < GOOD)]
        pairs = zip(bad["blocks_per_sm"], bad["efficiency"], strict=True)
        rows.append((name, ", ".join(f"{_blocks(n)} ({_percent(share)})" for n, share in pairs)))
    head = f"blocks per SM below {100 * GOOD:.0f} % (tail efficiency)"
    return table(("variant", head), rows)


def just_above():
    """Tail efficiency of grids a few blocks above full waves, beside n / (n + 1)."""
    grids = _grids()
    rows = []
    for waves in (1, 2, 4, 8):
        shares = []
        for _, of_variant in grids:
            above = of_variant[of_variant["waves"].between(waves + 0.005, waves + 0.03)]
            shares.append(_percent(above["efficiency"].iloc[0]) if len(above) else "")
        rows.append((str(waves), f"{100 * waves / (waves + 1):.1f} %", *shares))
    names = (name for name, _ in grids)
    return table(("just above … waves", "n ÷ (n + 1)", *names), rows)


def busy_ratio():
    """Time of the busy variant of the time of one block per multiprocessor, at 12 waves."""
    findings = findings_of("waves")
    times = {
        variant.name: findings.numbers.values[
            findings.programs.by_place[variant.id, problem.id].id, "duration_ns"
        ]
        for variant in findings.programs.variants
        for problem in findings.programs.problems
        if problem.params["waves"] == 12
    }
    ratio = times["4 blocks/SM, busy"].median / times["1 block/SM"].median
    shown = f"At 12 waves 4 blocks/SM, busy takes {ratio:.3f}{TIMES} the time of 1 block/SM"
    return f"{shown} for the same work.\n"


WAVE_BLOCKS = {
    "waves-needs": needs,
    "waves-below": below,
    "waves-just-above": just_above,
    "waves-busy": busy_ratio,
}
