"""The space of an experiment of several revisions: its file hands every call on to theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler.planning.space import Space, load_space
from profiler.planning.spec import ModuleWorkload
from profiler.runner.protocol import LAUNCHER, REVISION


def merged_space(here: Path, spaces: Mapping[str, tuple[str, str, str | None]]) -> dict[str, Any]:
    """Functions of a space whose variants name a revision.

    `spaces`: folder of the experiment from `here`, workload and space, by revision.
    """
    loaded = {
        revision: load_space(ModuleWorkload(module=module, space=space), (here / base).resolve())
        for revision, (base, module, space) in spaces.items()
    }
    newest = loaded[next(reversed(loaded))]

    def own(params: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in params.items() if key not in (REVISION, LAUNCHER)}

    def of(params: Mapping[str, Any]) -> Space:
        return loaded.get(str(params[REVISION]), newest)

    return {
        "check_variant": lambda params: of(params).check_variant(own(params)),
        "check_problem": newest.check_problem,
        "check_cell": lambda params, problem: of(params).check_cell(own(params), problem),
        "recipe": lambda params: of(params).recipe(own(params)),
        "check_kernels": lambda params, problem, names: of(params).check_kernels(
            own(params), problem, names
        ),
    }
