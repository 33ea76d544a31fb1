"""The four cards of a page: best, by how much, is it real, why; each in one short phrase."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import (
    IDLE_PCT,
    limit_at,
    mean_ratio,
    nearest_roof,
)
from profiler.findings.findings import Findings
from profiler.findings.kinds.grids import DRAM
from profiler.findings.kinds.steps import contrasts
from profiler.findings.kinds.waves import GOOD, RULE_BLOCKS_PER_SM
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking, VariantRank, geometric_mean
from profiler.findings.verdicts import UNSEEN, PairVerdict
from profiler.findings.why.cells import NEAR_ROOF
from profiler.findings.why.find import find_why, idle_difference
from profiler.findings.winners import Winner, standing_of
from profiler.model import Problem, Variant, Verdict
from profiler.notices import all_problems, counted
from profiler.render.tables.sustained import captured_sentences, sustained_sentence
from profiler.render.tables.timers import timer_cards
from profiler.render.words import numbers
from profiler.render.words.answer import coverage_sentence, problem_of
from profiler.render.words.comparisons import (
    bias_words,
    planned_winners,
    ties_words,
    worst_ratio_words,
)
from profiler.render.words.counters import (
    leader_roof_words,
    limit_and_roof,
    nearest_roof_words,
    practical_of,
)
from profiler.render.words.headline import (
    blocks_that_fill,
    headline,
    kind_sentence,
    reference_clause,
)
from profiler.render.words.names import in_sentence, key_to_names, quoted
from profiler.render.words.places import common_condition, places, where
from profiler.render.words.sentences import Card, Sentence, card_sentence, sentence_of, spoken
from profiler.render.words.signs import CSS, OUTCOME_WORDS, SYMBOLS
from profiler.render.words.verdicts import (
    limits,
    percent,
    reason_and_blocks,
    reason_words,
    span_words,
    symbol,
    verdict_counts,
    word_of,
    word_of_all,
)
from profiler.render.words.why import WAITS, part_words, roof_parts, roof_words
from profiler.search.estimates import CONFIDENCE

_MEMORY_ROOFS = frozenset({"dram", "l2", "l1"})
_NO_COUNTERS = "what tells why is counted on a GPU"
_LEAST_SAVED = 0.9
"""Bytes and kernels from this ratio on tell nothing about a difference of times."""


def cards(findings: Findings) -> tuple[Card, ...]:
    """Best, by how much, is it real, why."""
    if findings.timers is not None and findings.timers.compared:
        ends = findings.timers.overall[["least", "most"]].to_numpy().ravel()
        evidence = _duration_evidence(findings, max(ends, key=lambda ratio: abs(math.log(ratio))))
        evidence = replace(evidence, detail=f"{evidence.detail}; no verdict mixes timers")
        return timer_cards(findings, findings.timers, evidence)
    if cards_of_waves := _waves_cards(findings):
        return cards_of_waves
    return (
        _best_card(findings),
        _difference_card(findings),
        _reality_card(findings),
        _why_card(findings),
    )


def first_answer(findings: Findings) -> tuple[Sentence, ...]:
    """Sentences that a run says first, wherever it is asked: answer, cards, what is missing.

    What one must know to read the names, where they are not plain, follows the sentence.
    """
    key = key_to_names(findings.programs, with_shared=findings.search is not None)
    return (
        headline(findings),
        *([sentence_of(key)] if key else []),
        *map(card_sentence, cards(findings)),
        *captured_sentences(findings),
        *([used] if (used := sustained_sentence(findings)) else []),
        *([coverage] if (coverage := _coverage(findings)) else []),
    )


def _coverage(findings: Findings) -> Sentence:
    """Sentence on the number of measured cells, where not all were, and on untried ones."""
    programs, untried = findings.programs, _untried_words(findings)
    is_complete = 0 < programs.measured_count() == len(programs.plan.cells)
    return sentence_of(
        " ".join(
            filter(None, ("" if is_complete else spoken(coverage_sentence(programs)), untried))
        )
    )


def _untried_words(findings: Findings) -> str:
    """Words on how many configurations a search left out, and how many may be better."""
    cover = findings.search.coverage if findings.search else None
    if cover is None or not cover.untried:
        return ""
    most = cover.most_better
    if most == cover.untried:
        return f"Never tried: {cover.untried:,}; how many of them are better is not known."
    return (
        f"Of the {cover.untried:,} never tried, at most {most:,} are better "
        f"({100 * CONFIDENCE:.0f}\u202f% confidence)."
    )


# ---- best ----------------------------------------------------------------------------------------


def _best_card(findings: Findings) -> Card:
    row = findings.ranking.leader
    if row is None:
        return Card("Best", "nothing", "no correct result was measured")
    farthest = _coverage_words(findings, row)
    wins = _wins_words(findings, row)
    won_elsewhere = _won_problems(
        findings.ranking, findings.ranking.deciding_winners.keys() - row.planned
    )
    following = "" if farthest else _next_words(findings, row, in_short=len(won_elsewhere) > 1)
    winners = _won_cells(findings.ranking, row)
    details = [
        "the baseline" if row is findings.ranking.baseline_rank else "",
        *((wins, farthest) if findings.ranking.wins else (farthest, wins)),
        following if len(won_elsewhere) > 1 else "",
        _elsewhere_clause(findings.ranking, row),
        ties_words(winners[0]) if len(row.planned) == 1 and winners else "",
        following if len(won_elsewhere) < 2 else "",
        _reference_words(findings),
    ]
    detail = "; ".join(filter(None, details))
    return Card(_place(findings.ranking, row), in_sentence(row.variant.label), detail)


def _wins_words(findings: Findings, row: VariantRank) -> str:
    """Words on the number of problems that a variant wins, and is not shown to be slower at."""
    total = len(row.planned)
    winners = planned_winners(findings.ranking, row)
    of_total = f"of {total}"
    if any(winner.by_intervals for winner in winners):
        first = len(findings.ranking.contenders.get(row.variant.id, ()))
        return f"first, or its interval overlaps the first one's, at {first} {of_total}"
    wins, same_count, not_told_apart = standing_of(row.variant, winners)
    more = same_count + not_told_apart
    parts = [f"lowest at {wins or 'none'} {of_total}"]
    parts += [f"tied at {more}{' more' if wins else ''}"] if more else []
    if findings.ranking.tunes and not wins and not more:
        parts = [f"best at none {of_total}"]
    return f"{', '.join(parts)}{_first_instead_clause(findings.ranking, row)}"


def _first_instead_clause(ranking: Ranking, row: VariantRank) -> str:
    """Clause on who is first where the leader was shown to be slower, in brackets.

    Where a run tunes it asks for one variant: how far that is from the best is said anyway.
    """
    won = _won_problems(ranking, _lost_problems(ranking, row))
    if not won:
        return ""
    (label, problems), *_ = won.items()
    if ranking.tunes:
        return f" ({label} at {len(problems)})"
    winner_words = [
        f"{label} at {places(problems, ranking.programs.problems)}"
        for label, problems in list(won.items())[:_MOST_NAMED]
    ]
    other_wins = sum(map(len, list(won.values())[_MOST_NAMED:]))
    winner_words += [f"others at {other_wins}"] if other_wins else []
    return f" (elsewhere {', '.join(winner_words)}{_worst_loss(ranking, row, won)})"


def _lost_problems(ranking: Ranking, row: VariantRank) -> frozenset[str]:
    """Ids of the problems that a variant was shown to be slower at."""
    return row.planned - ranking.contenders.get(row.variant.id, frozenset())


def _won_problems(ranking: Ranking, among: Collection[str]) -> dict[str, list[Problem]]:
    """Problems of these (ids) that each variant wins, by its label in a sentence; most first."""
    won: dict[str, list[Problem]] = {}
    for problem in ranking.programs.problems:
        if problem.id in among and problem.id in ranking.deciding_winners:
            label = in_sentence(ranking.deciding_winners[problem.id].cell.variant.label)
            won.setdefault(label, []).append(problem)
    return dict(sorted(won.items(), key=lambda item: -len(item[1])))


def _worst_loss(
    ranking: Ranking, row: VariantRank, problems: Mapping[str, Sequence[Problem]]
) -> str:
    """Words on how far from the lowest a variant is at worst, where it is far.

    `problems`: where others are the lowest, by their labels.
    """
    if not row.worst_slowdown >= _FAR_FROM_BEST:
        return ""
    lost = [problem for several in problems.values() for problem in several]
    label = next(iter(problems))
    of_label = f"the time of {label}" if " " in label else f"{label}\u2019s time"
    whose = of_label if len(problems) == 1 else "the lowest time"
    up_to = "up to " if len(lost) > 1 else ""
    takes = f"; {up_to}{numbers.ratio(row.worst_slowdown)} {whose}"
    if len(lost) == 1 or common_condition(lost, ranking.programs.problems)[0]:
        return takes
    return f"{takes}, at {problem_of(ranking.programs, row.worst_problem).name}"


_FAR_FROM_BEST = 1.1
"""Times the lowest at one problem from which it is said beside who is first there."""


def _coverage_words(findings: Findings, row: VariantRank) -> str:
    if not row.covers:
        return f"measured at {len(row.ratios)}"
    if not (row.worst_slowdown > 1 and findings.ranking.tunes):
        return ""
    return worst_ratio_words(row.worst_slowdown)


def _elsewhere_clause(ranking: Ranking, row: VariantRank) -> str:
    """Clause on who leads at the problems that the leader is not planned for; empty without."""
    won = _won_problems(ranking, ranking.deciding_winners.keys() - row.planned)
    if not won:
        return ""
    problems = [problem for several in won.values() for problem in several]
    leaders = [rows[0] for rows in ranking.rival_groups if rows[0].planned.isdisjoint(row.planned)]
    condition, having_condition = common_condition(problems, ranking.programs.problems)
    having = f" with {condition}" if len(having_condition) == len(problems) else ""
    opening = f"not run at the {len(problems)}{having}"
    rows = {in_sentence(rank.variant.label): rank for rank in ranking.ranks}
    if len(leaders) == 1 and (ranking.tunes or len(won) == 1):
        name = in_sentence(leaders[0].variant.label)
        return f"{opening}: there {name}{_short_ratio(ranking, leaders[0], problems)}"
    leader_words = [
        f"{label} {where(won[label], problems)}"
        f"{_short_ratio(ranking, rows[label], won[label], names_baseline=not place)}"
        for place, label in enumerate(list(won)[:_MOST_ELSEWHERE])
    ]
    return f"{opening}: there {', '.join(leader_words)}"


def _short_ratio(
    ranking: Ranking,
    row: VariantRank,
    problems: Sequence[Problem],
    *,
    names_baseline: bool = True,
) -> str:
    """The mean ratio of a variant to the baseline at some problems, and verdicts, in brackets."""
    at = {problem.id for problem in problems}
    ratios = [value.ratio for problem, value in row.ratios if problem.id in at]
    pairs = [
        pair
        for problem_id, pair in row.verdict_by_problem.items()
        if problem_id in at and pair.verdict is not Verdict.NO_DATA
    ]
    agreed = symbol(pairs)
    verdicts = f" {agreed}" if agreed else f", {verdict_counts(pairs)}"
    if ranking.programs.baseline is None or not pairs or not ratios:
        return ""
    mean = numbers.ratio(geometric_mean(ratios))
    of_baseline = f" of {ranking.programs.baseline.label}" if names_baseline else ""
    return f" ({mean}{of_baseline}{verdicts})"


_MOST_ELSEWHERE = 2
_MOST_NAMED = 4
_SLOWER = SYMBOLS[Verdict.SLOWER]


def _next_words(findings: Findings, row: VariantRank, *, in_short: bool) -> str:
    """Words on the next variant that runs on the same problems, and whether it is slower.

    In short only its name, where it was not.
    """
    ranking = findings.ranking
    total = len(row.planned)
    group = next((rows for rows in ranking.rival_groups if row in rows), ())
    following = next(
        (
            rank
            for rank in group
            if rank is not row and rank.slowdowns and rank.variant != findings.programs.baseline
        ),
        None,
    )
    if total < _FEWEST_PROBLEMS or following is None:
        return ""
    held = len(ranking.contenders.get(following.variant.id, frozenset()) & row.planned)
    name = in_sentence(following.variant.label)
    if in_short:
        return f"tied with {name}" if held == total else ""
    correct = findings.programs.correct_by_place
    slower = sum((following.variant.id, problem) in correct for problem in row.planned) - held
    judged = all(winner.judged for winner in planned_winners(ranking, row))
    slower_words = f"{_SLOWER} at {slower}" if slower and judged else "not shown slower"
    mean = following.geometric_mean / row.geometric_mean
    compared = len(following.ratios) == len(row.ratios) and mean > 0
    of_leader = f", {numbers.ratio(mean)} its time" if compared else ""
    return f"next {name}{of_leader}, {slower_words}"


_FEWEST_PROBLEMS = 2
"""At one problem, those that are not told apart are named, and the table has the rest."""


def _reference_words(findings: Findings) -> str:
    """Words on how far the best reference is, unless that is the baseline.

    Where it is ahead, the sentence above says so, but on a kind of page that has its own.
    """
    lead = findings.ranking.best_reference
    if lead is None or lead.variant == findings.programs.baseline:
        return ""
    if lead.ratio > 1:
        took = f"{numbers.ratio(lead.ratio)} the best times"
        return f"reference {lead.variant.label}, {took}"
    if not kind_sentence(findings):
        return ""
    clause = reference_clause(findings.programs.baseline, lead)
    return spoken(sentence_of(clause)).removeprefix("; ")


def _won_cells(ranking: Ranking, row: VariantRank) -> list[Winner]:
    """The winners that are cells of this variant."""
    return [at for at in ranking.deciding_winners.values() if at.cell.variant == row.variant]


def _place(ranking: Ranking, row: VariantRank) -> str:
    """Heading for the first: best only where it is so at each of its problems.

    A compromise where a run tunes, and the one that is never far from the best is nowhere the best.
    """
    held = ranking.contenders.get(row.variant.id, frozenset())
    if not row.planned <= held:
        return "Leader" if row.planned & held or not ranking.tunes else "Compromise"
    winners = _won_cells(ranking, row)
    alone = len(winners) == len(row.planned) and all(winner.best for winner in winners)
    return "Best" if alone else "Best or tied"


# ---- waves ---------------------------------------------------------------------------------------


def _waves_cards(findings: Findings) -> tuple[Card, ...]:
    """Cards on how many blocks are enough, and what fewer cost; none without waves."""
    needs = findings.steady_grids
    enough = [need for need in needs if not numbers.is_missing(need.waves)]
    least = min(enough, key=lambda need: need.rule_least, default=None)
    if least is None or numbers.is_missing(least.rule_least):
        return ()
    labels = findings.programs.labels
    blocks = [
        f"{need.blocks_per_sm:.4g} for {quoted(labels[need.variant])} "
        f"({need.blocks_per_sm / need.waves:.3g} at a time)"  # those of one wave
        for need in enough
    ]
    answer, waves = blocks_that_fill(enough)
    blocks_are_known = not any(numbers.is_missing(need.blocks_per_sm) for need in enough)
    detail = "; ".join(blocks[:_MOST_NEEDS]) if blocks_are_known and len(enough) > 1 else waves
    cost = f"{numbers.share(least.rule_least)} of the full rate"
    where = f"{quoted(labels[least.variant])} at {least.rule_least_at:.4g} waves"
    grids = sum(need.rule_grids for need in enough)
    idle = f"at worst ({where}), of {grids} grids with that many or more"
    why = ["multiprocessors idle in it", leader_roof_words(findings)]
    return (
        Card("How many", answer, detail),
        Card(f"With {RULE_BLOCKS_PER_SM:g} blocks per SM", cost, idle),
        _duration_evidence(findings, GOOD / least.rule_least),
        Card("Why", "the last wave", "; ".join(filter(None, why))),
    )


def _duration_evidence(findings: Findings, ratio: float) -> Card:
    """Whether two durations of this ratio are told apart by the widest interval of any."""
    values = [findings.numbers.duration(cell) for cell in findings.programs.correct_cells.values()]
    with_interval = [
        value for value in values if value.present and not numbers.is_missing(value.high)
    ]
    if not with_interval:
        return Card("Is it real", "not known", "durations have no intervals")
    widest = max((value.high - value.low) / 2 / value.median for value in with_interval)
    beyond = abs(math.log(ratio)) > math.log1p(widest)
    visits = _visit_words(value.n for value in with_interval)
    detail = (
        f"{'beyond' if beyond else 'within'} \u00b1{percent(widest)}, the widest 95\u202f% "
        f"interval of {len(with_interval)} durations; medians of {visits}"
    )
    return Card("Is it real", "yes" if beyond else "not shown", detail)


_MOST_NEEDS = 4


# ---- by how much ---------------------------------------------------------------------------------


def _difference_card(findings: Findings) -> Card:
    row, baseline = findings.ranking.best_rank, findings.programs.baseline
    question = "By how much"
    if baseline is None:
        return Card(question, "no baseline", "nothing to compare with")
    if findings.ranking.leader is None:
        return Card(question, "no ratio", "no correct result was measured")
    if row is None or row.best is None or row.worst is None:
        return Card(question, "no ratio", "the baseline and another have no problem in common")
    if row.variant == baseline:
        return Card(question, "no other", "only the baseline was measured")
    against = f"the time of {baseline.label}"
    if findings.ranking.baseline_rank:
        against += f" in {row.variant.label}"
        if sum(bool(rank.slowdowns) for rank in findings.ranking.ranks) > 2:
            against += ", first of the rest"
    selection_bias = _selection_words(findings.ranking, row)
    if len(row.ratios) == 1:
        value = row.best[1]
        between = numbers.interval(value.ratio_low, value.ratio_high)
        comparison = " ".join(filter(None, (against, between)))
        return Card(question, numbers.ratio(value.ratio), f"{comparison}{selection_bias}")
    compared_problems = [problem for problem, _ in row.ratios]
    span = " to ".join(
        f"{numbers.ratio(value.ratio)} {place}"
        for problem, value in (row.best, row.worst)
        for place in [min(f"at {problem.name}", where([problem], compared_problems), key=len)]
    )
    return Card(question, numbers.ratio(row.geometric_mean), f"{against}; {span}{selection_bias}")


def _source(verdicts: Sequence[PairVerdict]) -> str:
    """`confirmed`, or how many visits the verdicts rest on, and how many were measured again."""
    judged = [pair for pair in verdicts if pair.verdict is not None]
    final = sum(pair.confirmed for pair in judged)
    if judged and final == len(judged):
        return "confirmed"
    remeasured = f"remeasured at {final}" if final else "not remeasured"
    return ", ".join(filter(None, (_blocks(verdicts), remeasured)))


def _selection_words(ranking: Ranking, row: VariantRank) -> str:
    """Words on how much too low the first's ratio may read, as it was chosen as the lowest.

    The mean over its problems of what each winner's number does: choosing by the mean of several
    problems adds less than choosing at each.
    """
    biases = [winner.selection_bias for winner in planned_winners(ranking, row)]
    known_biases = [0.0 if numbers.is_missing(bias) else bias for bias in biases]
    bias = bias_words(sum(known_biases) / len(known_biases)) if known_biases else ""
    return f"; chosen as the lowest, it may read {bias}" if bias else ""


# ---- is it real ----------------------------------------------------------------------------------


def _reality_card(findings: Findings) -> Card:
    row = findings.ranking.best_rank
    question = "Is it real"
    if row is None or not row.ratios:
        return Card(question, "not known", "no ratio to a baseline")
    judged = [
        (problem, pair)
        for problem in findings.programs.problems
        if (pair := row.verdict_by_problem.get(problem.id)) and pair.verdict is not None
    ]
    if any(pair.verdict is not Verdict.NO_DATA for _, pair in judged):
        return _verdict_card(question, findings, row, judged)
    return Card(question, "not known", "only the baseline was measured")


def _verdict_card(
    question: str,
    findings: Findings,
    row: VariantRank,
    judged: Sequence[tuple[Problem, PairVerdict]],
) -> Card:
    """The most frequent verdict, then the others and where, the margin and the number of blocks."""
    programs, verdicts = findings.programs, [pair for _, pair in judged]
    if len(verdicts) == 1:
        css = CSS[verdicts[0].verdict] if verdicts[0].verdict else ""
        return Card(question, word_of(verdicts[0]), reason_and_blocks(verdicts[0]), css)
    by_verdict: dict[Verdict, list[Problem]] = {}
    for problem, pair in judged:
        if pair.verdict:
            by_verdict.setdefault(pair.verdict, []).append(problem)
    first, *other_verdicts = sorted(by_verdict, key=lambda verdict: -len(by_verdict[verdict]))
    other_verdicts.sort(key=lambda verdict: verdict not in (Verdict.FASTER, Verdict.SLOWER))
    total = len(verdicts)
    verdict_words = {
        verdict: word_of_all([pair for pair in verdicts if pair.verdict is verdict])
        for verdict in by_verdict
    }
    all_words = all_problems(total).removesuffix(" problems")
    at = f"{len(by_verdict[first])} of {total}" if other_verdicts else all_words
    answer = f"{verdict_words[first]} at {at}"
    other_answers = [
        f"{verdict_words[verdict]} at "
        + (
            f"{len(by_verdict[verdict])}{_why_no_data(programs, row, by_verdict[verdict])}"
            if verdict is Verdict.NO_DATA
            else _places(findings.ranking, row, by_verdict[verdict])
        )
        for verdict in other_verdicts
    ]
    margins = span_words("margin \u00b1", [pair.resolution.margin for pair in verdicts])
    against = f"against {programs.baseline.label}" if programs.baseline else ""
    rests_on = ", ".join(filter(None, (against, f"{margins}{_offsets(verdicts)}")))
    unseen = {pair.reason: reason_words(pair) for pair in verdicts if pair.reason in UNSEEN}
    # An external command has no result that this program has seen, and no launches for a timer.
    launched = any(status.facts.result_bytes is not None for status in programs.statuses.values())
    remedy = "--timer times whole launches" if unseen and launched else ""
    details = [", ".join(other_answers), rests_on, _source(verdicts), *unseen.values(), remedy]
    detail = "; ".join(filter(None, details))
    return Card(question, answer, detail, "" if other_verdicts else CSS[first])


def _places(ranking: Ranking, row: VariantRank, problems: Sequence[Problem]) -> str:
    """Words on problems; their number alone where the card of the best has named them."""
    is_on_best_card = row is ranking.leader and {
        problem.id for problem in problems
    } == _lost_problems(ranking, row)
    if is_on_best_card and len(problems) > 1:
        return f"those {len(problems)}"
    return places(problems, [problem for problem, _ in row.ratios])


def _why_no_data(programs: Programs, row: VariantRank, problems: Sequence[Problem]) -> str:
    """Label and outcome of the variant or baseline that failed most often, in brackets."""
    failed = Counter(
        (variant.label, OUTCOME_WORDS[outcome])
        for problem in problems
        for variant in (row.variant, programs.baseline)
        if variant and (cell := programs.at(variant, problem))
        if not (outcome := programs.status(cell).outcome).correct
    )
    return "".join(f" ({label} {outcome})" for (label, outcome), _ in failed.most_common(1))


def _offsets(verdicts: Sequence[PairVerdict]) -> str:
    """Words on the problems whose margin is what sessions differ by, which no session can see."""
    count = sum(pair.resolution.rests_on_offsets for pair in verdicts)
    return f" (wider at {count}: sessions differ)" if count else ""


def _blocks(verdicts: Sequence[PairVerdict]) -> str:
    """`8 visits`: blocks would be taken for thread blocks here."""
    return _visit_words(pair.blocks for pair in verdicts if pair.blocks)


def _visit_words(counts: Iterable[int]) -> str:
    """`1 visit`, `8 visits`, `8 to 32 visits`; empty without any."""
    ends = sorted(set(counts))
    if not ends:
        return ""
    most = counted(ends[-1], "visit")
    return f"{ends[0]} to {most}" if len(ends) > 1 else most


def evidence(findings: Findings) -> str:
    """Words on what verdicts on the best rest on, and why some are unclear."""
    row = findings.ranking.best_rank
    judged = [pair for pair in row.planned_verdicts if pair.verdict] if row else []
    if not judged:
        return ""
    return "; ".join(filter(None, (doubts(judged), limits(judged, _blocks(judged)))))


def doubts(verdicts: Sequence[PairVerdict]) -> str:
    """Why it is UNCLEAR, where it is: the most common reason in the words of one problem."""
    unclear = [pair for pair in verdicts if pair.verdict is Verdict.UNCLEAR]
    if not unclear:
        return ""
    reason, count = Counter(pair.reason for pair in unclear).most_common(1)[0]
    why = next(reason_and_blocks(pair) for pair in unclear if pair.reason is reason)
    if count == len(verdicts):
        return why
    other_count = len(unclear) - count
    return f"{Verdict.UNCLEAR.word} at {len(unclear)}{', most often' if other_count else ''}: {why}"


# ---- why -----------------------------------------------------------------------------------------


def _why_card(findings: Findings) -> Card:
    """The largest part of the account; without one, what is known, in one phrase.

    Each has the nearest roof with its percent, where roofs were counted.
    """
    problem, row = findings.ranking.largest_problem, findings.ranking.leader
    if problem is None or row is None:
        return Card("Why", "not known", "nothing was measured")
    roof = nearest_roof_words(findings, row.variant, problem)
    card = (
        _account_card(findings)
        or _with_roof(_busy_card(findings), leader_roof_words(findings))
        or _limit_card(findings, row.variant, problem)
        or _with_roof(_traffic_card(findings, row.variant, problem), roof)
        or _roof_card(findings, row.variant, problem)
        or _bandwidth_card(findings.numbers, row.variant, problem)
    )
    counts = "a new run with explain counts it" if findings.report.environment.gpu else _NO_COUNTERS
    return card or Card("Why", "not explained", f"{counts} (docs/explain.md)")


def _with_roof(card: Card | None, roof: str) -> Card | None:
    """The card with a clause on the nearest roof, where there is one."""
    return replace(card, detail=f"{card.detail}; {roof}") if card and roof else card


def _account_card(findings: Findings) -> Card | None:
    """The largest part of the account that the answer is about; None where none was explained."""
    ranking = findings.ranking
    pair = find_why(findings).answer
    if pair is None or pair.account is None or not pair.account.parts:
        return None
    difference = pair.account.difference_ns
    if pair.roof_account is None:
        parts = [(part_words(part), part.ns) for part in pair.account.parts]
    else:
        parts = roof_parts(pair, pair.roof_account)
    largest = next((part for part in parts if part[1] * difference > 0), parts[0])
    place = f" at {pair.cell.problem.name}" if len(findings.programs.problems) > 1 else ""
    against = pair.against.variant.label
    # What is explained need not be the leader, nor of the type that the best of all is of, and a
    # page on steps or layouts asks for something else first.
    is_leader = ranking.leader is not None and pair.cell.variant == ranking.leader.variant
    question = "Why" if is_leader else f"Why {pair.cell.variant.label}, not the leader"
    detail = _parts_words(parts, largest, difference)
    if kind_sentence(findings) or contrasts(ranking, findings.report.settings):
        question += f" against {against}"
    else:
        detail += f" against {against}"
    # The cards beside it are of other launches: of the confirmation, at other clocks.
    detail += f"{place} (under ncu); now {limit_and_roof(pair.first)}"
    return Card(question, largest[0], detail)


def _parts_words(
    parts: Sequence[tuple[str, float]], largest: tuple[str, float], difference_ns: float
) -> str:
    """The largest part of a difference, the next while much is left, the rest, and the sum.

    Where many would have to be named, the largest of those in the other direction, and the rest.
    """
    other_parts = sorted(
        (part for part in parts if part != largest), key=lambda part: -abs(part[1])
    )

    def rest_ns(named_parts: Sequence[tuple[str, float]]) -> float:
        return difference_ns - largest[1] - sum(ns for _, ns in named_parts)

    firsts = [other_parts[:count] for count in range(_MOST_OTHER_PARTS + 1)]
    few = (
        named_parts
        for named_parts in firsts
        if abs(rest_ns(named_parts)) <= _SMALL_REST * abs(difference_ns)
    )
    contrary = (part for part in other_parts if part[1] * difference_ns < 0)
    named_parts = next(few, None)
    if named_parts is None:
        named_parts = [next(contrary, other_parts[0])]
    part_texts = [f"{part}, {numbers.signed_time(ns)}" for part, ns in named_parts]
    if abs(rest_ns(named_parts)) > _NO_REST * abs(difference_ns):
        part_texts.append(f"the rest {numbers.signed_time(rest_ns(named_parts))}")
    first, total = numbers.signed_time(largest[1]), numbers.signed_time(difference_ns)
    return (
        f"{'; '.join([first, *part_texts])}; in all {total}"
        if part_texts
        else f"{first} of {total}"
    )


_MOST_OTHER_PARTS = 2
"""Parts beside the largest that are named where they leave a small rest."""
_SMALL_REST = 0.1
"""Share of the difference that no further part is named for."""
_NO_REST = 0.0005
"""Share of the difference below which a sum is complete."""


def _busy_card(findings: Findings) -> Card | None:
    """Idle time, and its share, in the timelines of the best and of the baseline; None without."""
    difference = idle_difference(findings)
    if difference is None:
        return None
    units = (difference.unit, difference.baseline_unit)
    shares = [numbers.share(1 - unit.busy_share) for unit in units]
    idle = [numbers.show(unit.idle_ns, "ns") for unit in units]
    saved = numbers.signed_time(difference.unit.idle_ns - difference.baseline_unit.idle_ns)
    answer = f"{findings.timelines.device} less idle, {saved}"
    place = f" at {difference.cell.problem.name}" if len(findings.programs.problems) > 1 else ""
    against = f"{idle[1]} ({shares[1]}) in {difference.against.variant.label}"
    detail = f"{idle[0]} idle ({shares[0]}) against {against}, as recorded{place}"
    return Card("Why", answer, detail)


_FAR = 1.5
"""Times the share of the nearest roof from which a busy memory is busy with something else."""


def _limit_card(findings: Findings, variant: Variant, problem: Problem) -> Card | None:
    """Card of the unit near its peak, or of the near roof; None without both."""
    limit = limit_at(findings.numbers, variant, problem)
    roof = nearest_roof(findings.numbers, variant, problem)
    if limit is None:
        is_near = roof is not None and roof[1] >= 100 * NEAR_ROOF
        return _roof_card(findings, variant, problem) if is_near else None
    kind, compute_pct, memory_pct, stall = limit
    busy = {"compute": compute_pct, "memory": memory_pct}
    peaks = [f"{name} {numbers.show(value, '%')}" for name, value in busy.items() if value]
    parts = [f"{', '.join(peaks)} of peak", nearest_roof_words(findings, variant, problem)]
    if roof is not None and kind == "memory" and memory_pct > _FAR * roof[1]:
        parts.append("the busiest part of its memory is none of the roofs")
    if stall is not None:
        parts.append(f"warps wait most {WAITS[stall]}")
    return Card("Why", _LIMITED[kind], "; ".join(filter(None, parts)))


def _roof_card(findings: Findings, variant: Variant, problem: Problem) -> Card | None:
    """The nearest roof, and whether it is near; None where none was counted."""
    roof = nearest_roof(findings.numbers, variant, problem)
    if roof is None:
        return None
    share = f"{numbers.show(roof[1], '%')} of its roof{practical_of(findings, *roof)}"
    if roof[1] < 100 * NEAR_ROOF:
        nearest = f"the nearest, {roof_words(roof[0])}, is at {share} at {problem.name}"
        return Card("Why", "near no roof", nearest)
    return Card("Why", f"near {roof_words(roof[0])}", f"{share} at {problem.name}")


_LIMITED = {
    "compute": "limited by compute",
    "memory": "limited by memory",
    "balanced": "compute and memory",
    "latency": "limited by latency",
}


def _traffic_card(findings: Findings, variant: Variant, problem: Problem) -> Card | None:
    """Bytes and kernels of the best by those of the baseline; None where neither is fewer.

    Fewer bytes alone explain nothing where a roof of arithmetic is nearer than device memory.
    """
    ratios = ((DRAM, "the DRAM bytes"), (("kernels",), "the kernels"))
    means = [(mean_ratio(findings, names), quantity) for names, quantity in ratios]
    fewer = [
        f"{numbers.ratio(ratio)} {quantity}" for ratio, quantity in means if ratio < _LEAST_SAVED
    ]
    roof = nearest_roof(findings.numbers, variant, problem)
    by_arithmetic = roof is not None and roof[0] not in _MEMORY_ROOFS
    if not fewer or findings.programs.baseline is None or (by_arithmetic and len(fewer) == 1):
        return None
    of_baseline = f"those of {findings.programs.baseline.label} (geometric mean)"
    return Card("Why", fewer[0], ", ".join([*fewer[1:], of_baseline]))


def _bandwidth_card(cell_numbers: CellNumbers, variant: Variant, problem: Problem) -> Card | None:
    """Share of the bandwidth of device memory; None where it was not counted."""
    busy = cell_numbers.at(variant, problem, "peak_dram_pct").median
    if numbers.is_missing(busy):
        return None
    near = busy >= IDLE_PCT
    detail = f"{numbers.show(busy, '%')} of it at {problem.name}"
    return Card("Why", "near DRAM bandwidth" if near else "not DRAM bandwidth", detail)
