"""The kinds of page: what each asks of a run, what is found for it, and what shows it.

A kind is one entry here. Its parts are named `module:function`, so that planning an experiment
loads no figure; they are loaded when a page, the console or the JSON is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

BEST, STEPS, EFFECTS = "best", "steps", "effects"
QUESTIONS = (BEST, STEPS, EFFECTS)
"""What an experiment can ask: which variant is best, each step of a ladder, what parameters do."""

LADDER, PARAMETERS, RIVAL_PARAMETERS = "ladder", "parameters", "rival parameters"
GRIDS, WAVES = "grids", "waves"


@dataclass(frozen=True)
class PageKind:
    """One kind of page."""

    name: str
    view: str
    """Gives the `View` of findings: figures, tables and their template."""
    questions: tuple[str, ...] = (BEST,)
    """What a spec of this kind asks, unless it says otherwise."""
    finds: frozenset[str] = frozenset()
    """What is found beside winners and ranks: `LADDER`, `PARAMETERS`, `GRIDS`, …"""
    tunes: bool = False
    """Whether the question is which configuration to use, rather than which version is best."""
    answer: str = ""
    """Gives the sentences of the answer, where they are other than those of most pages."""
    document: str = ""
    """Gives what the kind adds to the JSON."""


_VIEWS = "profiler.render.kinds"

PAGE_KINDS: Mapping[str, PageKind] = {
    kind.name: kind
    for kind in (
        PageKind("versions", view=f"{_VIEWS}.versions:versions_view"),
        PageKind(
            "autotune",
            view=f"{_VIEWS}.autotune:autotune_view",
            finds=frozenset({RIVAL_PARAMETERS}),
            tunes=True,
        ),
        PageKind(
            "ablation",
            view=f"{_VIEWS}.ablation:ablation_view",
            questions=(BEST, EFFECTS),
            finds=frozenset({PARAMETERS}),
            answer=f"{_VIEWS}.ablation:ablation_answer",
        ),
        PageKind(
            "progression",
            view=f"{_VIEWS}.progression:progression_view",
            questions=(BEST, STEPS),
            finds=frozenset({LADDER}),
            answer=f"{_VIEWS}.progression:progression_answer",
            document="profiler.findings.document:ladder_document",
        ),
        PageKind(
            "grid",
            view=f"{_VIEWS}.grid:grid_view",
            finds=frozenset({GRIDS}),
            answer=f"{_VIEWS}.grid:grid_answer",
            document="profiler.findings.document:grids_document",
        ),
        PageKind("timeline", view=f"{_VIEWS}.timeline:timeline_view"),
        PageKind(
            "waves",
            view=f"{_VIEWS}.waves:waves_view",
            finds=frozenset({WAVES}),
            answer=f"{_VIEWS}.waves:waves_answer",
            document="profiler.findings.document:waves_document",
        ),
    )
}
"""By name, in the order of the docs."""


def load_part(reference: str) -> Callable[..., Any]:
    """The function that a kind names as `module:function`."""
    module, _, name = reference.partition(":")
    part: Callable[..., Any] = getattr(import_module(module), name)
    return part
