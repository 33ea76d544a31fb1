"""Tables of docs/flash-attention.md and docs/flash-attention-hopper.md, from their recordings."""

import textwrap
from functools import partial
from pathlib import Path

from doc_tables import (
    RECORDINGS,
    WIDTH,
    cell_of,
    explained,
    findings_of,
    median,
    spread,
    table,
    time,
    word,
)

from profiler.commands.explain import ExplainRequest, explained_pair
from profiler.findings.cell_numbers import FINAL
from profiler.render.words import numbers
from profiler.render.words.numbers import TIMES
from profiler.render.words.why import account_words

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TYPES = ("BF16", "FP16")


# ---- attention with mma.sync ---------------------------------------------------------------------

PUBLISHED = {
    1: (15.8, 49.5), 2: (72.6, 98.3), 3: (77.6, 99.4), 4: (77.6, 100.0), 5: (76.8, 99.7),
    6: (78.1, 99.9), 7: (80.3, 101.5), 8: (87.8, 101.7), 9: (95.3, 97.5), 10: (93.9, 102.9),
    11: (95.2, 102.8), 12: (95.3, 102.8), 13: (97.6, 101.5), 14: (97.7, 101.5), 15: (97.9, 101.5),
    16: (99.2, 100.9),
}  # fmt: skip
"""Speed of the steps of a published ladder on an A100 and an RTX 3090, in percent of that of
FlashAttention-2."""


def ladder_of_mma_sync():
    """Steps of the ladder in FP16 at 4096; every ratio is the quotient of two durations shown.

    All durations are of the timing blocks, in which every step was measured.
    """
    findings = findings_of("progression")
    variants = [v for v in findings.programs.variants if v.id.startswith("step-")]
    baseline, *medians = (
        findings.numbers.block_values[cell_of(findings, v, seq_len=4096).id, "duration_ns"].median
        for v in ("sdpa_flash", *(variant.id for variant in variants))
    )
    rows = [("", "FlashAttention-2", time(baseline), "1", "", "1", "1")]
    for number, (variant, duration) in enumerate(zip(variants, medians, strict=True), start=1):
        to_before = f"{duration / medians[number - 2]:.3f}" if number > 1 else ""
        published = (f"{100 / percent:.2f}" for percent in PUBLISHED[number])
        row = (str(number), variant.note, time(duration), f"{duration / baseline:.3f}", to_before)
        rows.append((*row, *published))
    columns = ("duration", f"{TIMES} FlashAttention-2", f"{TIMES} the step before")
    return table(("step", "adds", *columns, "A100, published", "RTX 3090, published"), rows)


def accounts_of_steps(recording):
    """Account of each step at the problem that was explained, against the step before."""
    findings = findings_of(recording)
    ids = [v.id for v in findings.programs.variants if v.id.startswith("step-")]
    return table(
        ("step", f"{TIMES} the step before", "account of one launch each"),
        (_account(findings, *pair) for pair in zip(ids[1:], ids, strict=False)),
    )


def _account(findings, step, before):
    names = {v.id: v.label for v in findings.programs.variants}
    request = ExplainRequest(Path(), names[step], names[before])
    _, pair = explained_pair(findings, request)
    ratio = f"{pair.verdict.ratio:.3f}, {word(pair.verdict)}"
    return names[step], ratio, account_words(pair.account) if pair.account else numbers.MISSING


# ---- attention for Hopper ------------------------------------------------------------------------


def ladder_of_hopper():
    """Durations of the steps at each length, and how busy the tensor pipe is at 4096.

    All durations are of the timing blocks, in which every step was measured.
    """
    findings = findings_of("hopper")
    lengths = [problem.params["seq_len"] for problem in findings.programs.problems]
    rows = []
    for variant in findings.programs.variants:
        cells = [cell_of(findings, variant.id, seq_len=length) for length in lengths]
        busy = cell_of(findings, variant.id, seq_len=4096)
        rows.append(
            (
                variant.label,
                *(
                    time(findings.numbers.block_values[cell.id, "duration_ns"].median)
                    for cell in cells
                ),
                f"{median(findings, busy, 'tensor_pipe_pct'):.1f} %",
            )
        )
    return table(("version", *map(str, lengths), "tensor pipe at 4096"), rows)


def best_of_autotune(rival):
    """At each length and type the confirmed median of a variant, and it against both of torch's.

    `rival`: name of the variant; None: whichever of the configurations has the lowest median.
    """
    findings = findings_of("autotune")
    ids = {variant.label: variant.id for variant in findings.programs.variants}
    rows = []
    for length in LENGTHS:
        row = [str(length)]
        for precision in TYPES:
            place = {"seq_len": length, "precision": precision}
            flash = cell_of(findings, ids["sdpa_flash"], **place)
            cudnn = cell_of(findings, ids["sdpa_cudnn"], **place)
            cell = (
                cell_of(findings, ids[rival], **place)
                if rival
                else findings.ranking.rival_winners[flash.problem.id].cell
            )
            row += [time(confirmed(findings, cell)), *ratios(findings, cell, (flash, cudnn))]
        rows.append(row)
    columns = ("", f", {TIMES} FlashAttention-2", f", {TIMES} cuDNN")
    return table(("length", *(f"{t}{column}" for t in TYPES for column in columns)), rows)


def ratios(findings, cell, others):
    """Quotients of a cell's confirmed median and those of others."""
    return [f"{confirmed(findings, cell) / confirmed(findings, other):.3f}" for other in others]


def confirmed(findings, cell):
    """Median duration of a cell in the confirmation, in ns."""
    value = findings.numbers.values[cell.id, "duration_ns"]
    assert value.source == FINAL, f"{cell.id} was not confirmed"
    return value.median


def best_of_hopper():
    """At each length and type the lowest confirmed median of the sweep, beside both of torch's."""
    findings = findings_of("hopper_autotune")
    ids = {variant.label: variant.id for variant in findings.programs.variants}
    rows = []
    for length in LENGTHS:
        row = [str(length)]
        for precision in TYPES:
            place = {"seq_len": length, "precision": precision}
            others = [cell_of(findings, ids[n], **place) for n in ("sdpa_cudnn", "sdpa_flash")]
            cell = findings.ranking.rival_winners[others[0].problem.id].cell
            name = cell.variant.label.removeprefix(f"{precision} · ")
            row += [name, time(confirmed(findings, cell)), *ratios(findings, cell, others)]
        rows.append(row)
    columns = ("", ", duration", f", {TIMES} cuDNN", f", {TIMES} FlashAttention-2")
    return table(("length", *(f"{t}{column}" for t in TYPES for column in columns)), rows)


def counters_of_hopper():
    """Counters at 4096 that tell the steps apart."""
    findings = findings_of("hopper")
    rows = []
    for variant in findings.programs.variants:
        cell = cell_of(findings, variant.id, seq_len=4096)
        rows.append(
            (
                variant.label,
                f"{median(findings, cell, 'instructions') / 1e9:.3f} G",
                f"{median(findings, cell, 'l2_bytes') / 1e9:.1f} GB",
                f"{median(findings, cell, 'shared_dynamic_bytes') / 1024:.0f} KiB",
                f"{median(findings, cell, 'achieved_occupancy_pct'):.1f} %",
                f"{median(findings, cell, 'stall_barrier'):.2f}",
                f"{median(findings, cell, 'tensor_pipe_pct'):.1f} %",
            )
        )
    head = ("version", "warp instructions", "L2 traffic", "shared memory a block", "occupancy")
    return table((*head, "`stall_barrier`", "tensor pipe"), rows)


def speed_of_hopper():
    """How fast the best is at the longest length, and what one choice for all lengths costs."""
    findings = findings_of("hopper_autotune")
    speeds = [
        findings.numbers.values[findings.ranking.rival_winners[problem.id].cell.id, "tflops"].median
        for problem in findings.programs.problems
        if problem.params["seq_len"] == max(LENGTHS)
    ]
    recommended = [group[0] for group in findings.ranking.rival_groups]
    choices = " and ".join(
        f"{rank.variant.label} at most {rank.worst_slowdown:.3f}\u00d7" for rank in recommended
    )
    text = (
        f"At {max(LENGTHS)} the best makes {speeds[0]:.0f} TFLOP/s in bf16 and {speeds[1]:.0f} in "
        "fp16 (4\u00b7b\u00b7h\u00b7s\u00b2\u00b7d operations). Used at every length, "
        f"{choices} the time of the best of its type."
    )
    return "\n".join(textwrap.wrap(text, WIDTH + 22, break_on_hyphens=False)) + "\n"


def causal():
    """Durations with a causal mask in both orders of tiles, and against cuDNN."""
    findings = findings_of("hopper_causal")
    problems = [p for p in findings.programs.problems if p.params["is_causal"]]
    rows = []
    for variant in findings.programs.variants:
        cells = [findings.programs.by_place.get((variant.id, problem.id)) for problem in problems]
        if all(cells):
            rows.append((variant.label, *(_against_baseline(findings, cell) for cell in cells)))
    return table(("with a causal mask", *(str(p.params["seq_len"]) for p in problems)), rows)


def _against_baseline(findings, cell):
    """`138.0 us, 0.870 FASTER`: both of the same session; of the baseline its duration alone."""
    verdict = findings.verdicts.against_baseline.get(cell.id)
    if verdict is None:
        return time(median(findings, cell))
    return f"{time(verdict.median)}, {verdict.ratio:.3f} {word(verdict)}"


def versions_of_timeline():
    """Share of time in which so many consumers had products under way at 4096, and durations."""
    findings = findings_of("hopper_timeline")
    rows = []
    for variant in findings.programs.variants:
        cell = cell_of(findings, variant.id, seq_len=4096)
        shares = findings.in_kernel[cell.id].operation_shares
        shown = [f"{100 * share:.1f} %" for share in shares]
        rows.append(
            (variant.label, *(shown + [numbers.MISSING] * 4)[:4], _against_baseline(findings, cell))
        )
    return table(("version", "none", "1", "2", "3", "duration, against two"), rows)


GAP = ("sdpa_flash", "ours", "sdpa_cudnn", "hopper")


def gap_to_cudnn():
    """Counters of four kernels at 4096 in BF16, of which ours is the best with mma.sync."""
    findings = findings_of("autotune")
    place = {"seq_len": 4096, "precision": "BF16"}
    ids = {variant.label: variant.id for variant in findings.programs.variants}
    winner = findings.ranking.rival_winners[
        cell_of(findings, ids["hopper"], **place).problem.id
    ].cell
    cells = [winner if n == "ours" else cell_of(findings, ids[n], **place) for n in GAP]
    rows = [
        (label, *(form.format(median(findings, cell, metric) / unit) for cell in cells))
        for label, metric, unit, form in (
            ("TFLOP/s (4\u00b7b\u00b7h\u00b7s\u00b2\u00b7d)", "tflops", 1, "{:.0f}"),
            ("tensor pipe busy, % of active cycles", "tensor_pipe_pct", 1, "{:.1f}"),
            ("SM clock, GHz", "sm_clock_ghz", 1, "{:.3f}"),
            ("tensor operations, % of the roof at that clock", "roof_tensor_bf16_pct", 1, "{:.1f}"),
            ("warp instructions, millions", "instructions", 1e6, "{:.0f}"),
            ("L2 traffic, GB", "l2_bytes", 1e9, "{:.1f}"),
            ("DRAM read, GB", "dram_read_bytes", 1e9, "{:.2f}"),
            ("DRAM written, GB", "dram_write_bytes", 1e9, "{:.2f}"),
            ("shared memory per block, KiB", "shared_dynamic_bytes", 1024, "{:.0f}"),
            ("threads per block", "block_size", 1, "{:.0f}"),
            ("blocks", "grid_size", 1, "{:.0f}"),
        )
    ]
    return table(("", "FlashAttention-2", "ours", "cuDNN", "our kernel for Hopper"), rows)


def flags():
    """What each flag of `async_copy` takes, all others being on: mean, extremes and verdicts."""
    findings = findings_of("async_copy")
    rows = []
    for effect in findings.parameter_steps:
        ratios_of_problems = [one.ratio for one in effect.effects]
        verdicts = sorted({word(verdict) for verdict in effect.verdicts})
        rows.append((f"`{effect.step.parameter}`", spread(ratios_of_problems), ", ".join(verdicts)))
    return table(("on instead of off", f"{TIMES} the time without", "verdicts"), rows)


ATTENTION_BLOCKS = {
    "hopper-best": best_of_hopper,
    "hopper-speed": speed_of_hopper,
    "hopper-counters": counters_of_hopper,
    "hopper-causal": causal,
    "hopper-timeline": versions_of_timeline,
    "mma-sync-best": partial(best_of_autotune, None),
    "mma-sync-against-hopper": partial(best_of_autotune, "hopper"),
    "mma-sync-gap": gap_to_cudnn,
    "mma-sync-why": partial(explained, RECORDINGS / "autotune.zip"),
    "mma-sync-why-hopper": partial(explained, RECORDINGS / "autotune.zip", against="hopper"),
    "async-copy-flags": flags,
    "async-copy-why": partial(explained, RECORDINGS / "async_copy.zip"),
    "hopper-against-cudnn": partial(explained, RECORDINGS / "hopper.zip"),
    "mma-sync-ladder": ladder_of_mma_sync,
    "mma-sync-accounts": partial(accounts_of_steps, "progression"),
    "hopper-ladder": ladder_of_hopper,
    "hopper-accounts": partial(accounts_of_steps, "hopper"),
}
"""What writes a block of the documents of attention, by its name."""
