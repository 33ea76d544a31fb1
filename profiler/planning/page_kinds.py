"""The questions of an experiment, and the kinds of page with their questions, findings and views.

Questions decide which cells later looks and the final measure. A kind is one entry here. Its parts
are named `module:function`, so that planning an experiment loads no figure; they are loaded when a
page, the console or the JSON is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

from profiler.model import Variant


class Question(StrEnum):
    """One question that `questions` of a spec may name."""

    BEST = "best"
    """Which variant is the best at each problem, and whether it differs from the baseline."""
    BASELINE = "baseline"
    """Which other variants differ from the baseline."""
    STEPS = "steps"
    """Whether each variant differs from the one before it."""
    EFFECTS = "effects"
    """Whether variants that differ in one parameter differ in duration."""


def pairs_asked(
    variants: Sequence[Variant], questions: Sequence[Question], parameters: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Pairs of variant ids that `steps` and `effects` compare, the later variant first.

    `variants` without baseline and references; `parameters`: those whose effects are asked for,
    all where there are none.
    """
    pairs: list[tuple[str, str]] = []
    if Question.STEPS in questions:
        pairs += [(later.id, earlier.id) for earlier, later in itertools.pairwise(variants)]
    if Question.EFFECTS in questions:
        from profiler.analyse.effects import steps  # noqa: PLC0415 - brings SciPy, which takes long

        effect_steps = steps(variants, parameters or None)
        pairs += [(after.id, before.id) for step in effect_steps for before, after in step.pairs]
    return tuple(dict.fromkeys(pairs))


LADDER, PARAMETERS, RIVAL_PARAMETERS = "ladder", "parameters", "rival parameters"
GRIDS, WAVES, TIMELINES = "grids", "waves", "timelines"


@dataclass(frozen=True)
class PageKind:
    """One kind of page."""

    name: str
    shows: str
    """What such a page shows, for the docs."""
    view: str
    """Function from findings to the `View`: figures, tables and their template."""
    questions: tuple[Question, ...] = (Question.BEST, Question.BASELINE)
    """Default questions of a spec of this kind."""
    finds: frozenset[str] = frozenset()
    """Findings beside winners and ranks: `LADDER`, `PARAMETERS`, `GRIDS`, …"""
    tunes: bool = False
    """Whether the question is which configuration to use, rather than which version is best."""
    searched: bool = False
    """Whether the page suits a search, of which only the best variants were measured."""
    answer: str = ""
    """Function that gives the sentences of the answer, where they differ from most pages'."""
    console: str = ""
    """Gives the console's tables, where the question is not which variant wins a problem."""


_VIEWS = "profiler.render.kinds"
_ANSWERS = "profiler.render.words.answer"

PAGE_KINDS: Mapping[str, PageKind] = {
    kind.name: kind
    for kind in (
        PageKind(
            "versions",
            "kernel versions side by side, per problem",
            view=f"{_VIEWS}.versions:versions_view",
            searched=True,
        ),
        PageKind(
            "autotune",
            "many configurations on few problems",
            view=f"{_VIEWS}.versions:autotune_view",
            finds=frozenset({RIVAL_PARAMETERS}),
            tunes=True,
            searched=True,
        ),
        PageKind(
            "ablation",
            "what single parameters change",
            view=f"{_VIEWS}.versions:ablation_view",
            questions=(Question.BEST, Question.BASELINE, Question.EFFECTS),
            finds=frozenset({PARAMETERS}),
            answer=f"{_ANSWERS}:step_sentences",
        ),
        PageKind(
            "progression",
            "a ladder of versions, in the order of the file",
            view=f"{_VIEWS}.progression:progression_view",
            questions=(Question.BEST, Question.BASELINE, Question.STEPS),
            finds=frozenset({LADDER}),
            answer=f"{_ANSWERS}:ladder_sentences",
        ),
        PageKind(
            "grid",
            "few variants on problems that differ in two sizes",
            view=f"{_VIEWS}.grid:grid_view",
            finds=frozenset({GRIDS}),
            answer=f"{_VIEWS}.grid:grid_answer",
        ),
        PageKind(
            "timeline",
            "what each launch did over time",
            view=f"{_VIEWS}.timeline:timeline_view",
            finds=frozenset({TIMELINES}),
        ),
        PageKind(
            "waves",
            "grids counted in waves, and what the last wave costs",
            view=f"{_VIEWS}.waves:waves_view",
            finds=frozenset({WAVES}),
            answer=f"{_VIEWS}.waves:waves_answer",
            console="profiler.render.kinds.waves:waves_tables",
        ),
    )
}
"""By name, in the order of the docs."""


def questions_of(
    named_questions: Sequence[Question] | None, page_kind: str
) -> tuple[Question, ...]:
    """Questions of an experiment: the named ones, else those of its kind of page."""
    return PAGE_KINDS[page_kind].questions if named_questions is None else tuple(named_questions)


def load_part(reference: str) -> Callable[..., Any]:
    """The function of a page kind, given as `module:function`."""
    module, _, name = reference.partition(":")
    part: Callable[..., Any] = getattr(import_module(module), name)
    return part
