"""Numbers of README and docs that recordings hold: `make numbers` writes them into the documents.

Between `<!-- numbers: NAME -->` and `<!-- /numbers -->` stands what `BLOCKS[NAME]` returns, and
nothing else (`tests/test_doc_numbers.py`).
"""

import re
from functools import partial
from pathlib import Path

from doc_fusion import FUSION_BLOCKS
from doc_softmax import largest_problem, twelve_lines
from doc_tables import RECORDINGS, cell_of, explained, findings_of, median, plain, table, time, word

from profiler.commands.explain import ExplainRequest, explained_pair
from profiler.findings.values import FINAL
from profiler.render.words import numbers
from profiler.render.words.numbers import TIMES
from profiler.render.words.why import account_words

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- /numbers -->)", re.DOTALL)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TYPES = ("BF16", "FP16")


def filled(page):
    """The page with each of its blocks written again."""
    return BLOCK.sub(lambda match: f"{match[1]}{plain(BLOCKS[match[2]]())}{match[3]}", page)


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
    variants = [v for v in findings.variants if v.id.startswith("step-")]
    baseline, *medians = (
        findings.block_values[cell_of(findings, v, seq_len=4096).id, "duration_ns"].median
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
    ids = [v.id for v in findings.variants if v.id.startswith("step-")]
    return table(
        ("step", f"{TIMES} the step before", "account of one launch each"),
        (_account(findings, *pair) for pair in zip(ids[1:], ids, strict=False)),
    )


def _account(findings, step, before):
    names = {v.id: v.name for v in findings.variants}
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
    lengths = [problem.params["seq_len"] for problem in findings.problems]
    rows = []
    for variant in findings.variants:
        cells = [cell_of(findings, variant.id, seq_len=length) for length in lengths]
        busy = cell_of(findings, variant.id, seq_len=4096)
        rows.append(
            (
                variant.name,
                *(time(findings.block_values[cell.id, "duration_ns"].median) for cell in cells),
                f"{median(findings, busy, 'tensor_pipe_pct'):.1f} %",
            )
        )
    return table(("version", *map(str, lengths), "tensor pipe at 4096"), rows)


def best_of_autotune(rival):
    """At each length and type the confirmed median of a variant, and it against both of torch's.

    `rival`: name of the variant; None: whichever of the configurations has the lowest median.
    """
    findings = findings_of("autotune")
    ids = {variant.name: variant.id for variant in findings.variants}
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
                else findings.rival_winners[flash.problem.id].cell
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
    value = findings.values[cell.id, "duration_ns"]
    assert value.source == FINAL, f"{cell.id} was not confirmed"
    return value.median


def best_of_hopper():
    """At each length and type the lowest confirmed median of the sweep, beside both of torch's."""
    findings = findings_of("hopper_autotune")
    ids = {variant.name: variant.id for variant in findings.variants}
    rows = []
    for length in LENGTHS:
        row = [str(length)]
        for precision in TYPES:
            place = {"seq_len": length, "precision": precision}
            others = [cell_of(findings, ids[n], **place) for n in ("sdpa_cudnn", "sdpa_flash")]
            cell = findings.rival_winners[others[0].problem.id].cell
            name = cell.variant.name.removeprefix(f"{precision} · ")
            row += [name, time(confirmed(findings, cell)), *ratios(findings, cell, others)]
        rows.append(row)
    columns = ("", ", duration", f", {TIMES} cuDNN", f", {TIMES} FlashAttention-2")
    return table(("length", *(f"{t}{column}" for t in TYPES for column in columns)), rows)


BLOCKS = {
    "hopper-best": best_of_hopper,
    "mma-sync-best": partial(best_of_autotune, None),
    "mma-sync-against-hopper": partial(best_of_autotune, "hopper"),
    "mma-sync-why": partial(explained, RECORDINGS / "autotune"),
    "mma-sync-why-hopper": partial(explained, RECORDINGS / "autotune", against="hopper"),
    "async-copy-why": partial(explained, RECORDINGS / "async_copy"),
    "hopper-against-cudnn": partial(explained, RECORDINGS / "hopper"),
    "mma-sync-ladder": ladder_of_mma_sync,
    "mma-sync-accounts": partial(accounts_of_steps, "progression"),
    "hopper-ladder": ladder_of_hopper,
    "hopper-accounts": partial(accounts_of_steps, "hopper"),
    **FUSION_BLOCKS,
    "twelve-lines": twelve_lines,
    "softmax-largest": largest_problem,
    "softmax-why": partial(explained, RECORDINGS / "softmax"),
    "account-waves": partial(explained, RECORDINGS / "waves"),
}
"""What writes a block, by its name."""


def main():
    """Write the blocks of all documents."""
    for document in DOCUMENTS:
        page = document.read_text("utf-8")
        if (text := filled(page)) != page:
            document.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
