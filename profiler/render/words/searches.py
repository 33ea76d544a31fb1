"""Sentences on a search: what was tried, what was found, how sure it is that nothing was missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from profiler.findings.findings import Findings, Programs
from profiler.findings.kinds.search import SearchFindings
from profiler.render.words import numbers
from profiler.search.live.estimates import CONFIDENCE, GEOMEAN, WORST
from profiler.search.live.importance import FEWEST

IMPORTANCE_METHOD = "permutation importance over kernel ridge regression on the logs of the ratios"


def search_sentences(findings: Findings, search: SearchFindings) -> tuple[str, ...]:
    """What there is to say of a search, one thing after the other."""
    return (
        _course(search),
        *_found(findings.programs, search),
        missed(search),
        _noise(search),
        *_gpus(search),
    )


def _course(search: SearchFindings) -> str:
    cover, terms = search.coverage, search.record.terms
    seconds = max((trial.elapsed_s for trial in search.trials), default=0.0)
    share = cover.tried / cover.configurations
    text = (
        f"The strategy {terms.strategy} tried {cover.tried:,} of {cover.configurations:,} "
        f"configurations ({100 * share:.1f} %) in {numbers.seconds(seconds)}"
    )
    facts = []
    if search.failed:
        facts.append(f"{search.failed} failed")
    if search.stopped_early:
        facts.append(f"{search.stopped_early} were stopped early, clearly behind the best")
    if terms.left_out:
        facts.append(f"{terms.left_out} more cannot do every problem and were left out")
    return f"{'; '.join([text, *facts])}."


def _found(programs: Programs, search: SearchFindings) -> Iterator[str]:
    best = search.best
    if best is None:
        yield "None of them could be measured."
        return
    low, high = best.interval
    yield (
        f"By CUDA events the best is {variant_name(programs, best.variant)}: "
        f"{numbers.ratio(best.ratio)} the time of "
        f"{variant_name(programs, search.record.terms.baseline)} "
        f"{numbers.interval(low, high)}, {objective_words(programs, search)}."
    )
    if search.record.finished is None:
        yield "The search was stopped before its end."
    else:
        count = len(search.finalists)
        yield (
            f"{count} finalist{'' if count == 1 else 's'} went on; the answer and all numbers in "
            "other sections are of their measurement, not of the search."
        )


def search_summary(search: SearchFindings) -> str:
    """What was tried, and how sure it is that nothing much better was missed."""
    return f"Search: {_course(search)} {missed(search)}"


def missed(search: SearchFindings) -> str:
    """How sure it is that nothing much better was missed."""
    cover = search.coverage
    if not cover.untried:
        return "Every configuration was tried."
    never = f"{cover.untried:,} configurations were never tried"
    if cover.better_share is None:
        return (
            f"{never}, and none was drawn at random: how many of them are better is not known "
            "(the strategies random and portfolio draw some)."
        )
    most = int(cover.better_share * cover.configurations)
    return (
        f"{never}. None of the {cover.random_draws} that were drawn at random is better than the "
        f"best found: with {100 * CONFIDENCE:.0f} % confidence less than "
        f"{100 * cover.better_share:.2g} % of all configurations ({most:,}) are better."
    )


def _noise(search: SearchFindings) -> str:
    noise = search.noise
    looks = noise.repeated_looks
    source = f"{looks} repeated looks at the best" if looks else "assumed: nothing was repeated"
    return (
        f"A ratio varies by {100 * noise.within:.1f} % from block to block and by "
        f"{100 * noise.between:.1f} % from look to look ({source})."
    )


def _gpus(search: SearchFindings) -> Iterator[str]:
    """Which GPU measured how many, where there are several."""
    counts = Counter(trial.worker for trial in search.trials)
    workers = [worker for worker in search.record.workers if counts[worker.worker]]
    if len(workers) < 2:
        return
    listed = ", ".join(
        f"{worker.worker} ({worker.gpu_uuid or 'no UUID'}) {counts[worker.worker]}"
        for worker in workers
    )
    yield (
        f"Ratios were measured on {len(workers)} GPUs of one model, each beside the baseline on "
        f"the same GPU: {listed}. What these GPUs differ by is part of the noise from look to look."
    )


def importance_reading(search: SearchFindings) -> str:
    """What the importances are, or why there are none."""
    importance = search.importance
    if importance is None:
        return f"Too few configurations were measured for a model: at least {FEWEST} are needed."
    explained = f"{100 * max(importance.explained, 0):.0f} % of the variance"
    if not importance.shares:
        return (
            f"A model of the parameters predicts only {explained} of configurations that were left "
            "out of it: too little to say which parameter matters."
        )
    return (
        f"Share of each parameter in what configurations differ by: {IMPORTANCE_METHOD}. The model "
        f"predicts {explained} of configurations that were left out of it."
    )


def objective_words(programs: Programs, search: SearchFindings) -> str:
    """Words for what a ratio of the search compares, and over which problems."""
    terms = search.record.terms
    if len(terms.problems) == 1:
        names = {problem.id: problem.name for problem in programs.problems}
        return f"at {names.get(terms.problems[0], terms.problems[0])}"
    means = {GEOMEAN: "geometric mean over", WORST: "the worst of"}
    return f"{means[terms.objective]} {len(terms.problems)} problems"


def variant_name(programs: Programs, variant: str) -> str:
    """Label of a variant; its id where it was not measured after the search."""
    labels = {variant.id: variant.label for variant in programs.plan.variants}
    return labels.get(variant, variant)
