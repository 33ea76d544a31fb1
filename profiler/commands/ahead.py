"""What a run begins before it is needed, because it takes as long as what is done meanwhile.

Imports nothing that takes long: the machine is asked before anything else of a run is there.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from pathlib import Path

from profiler.machine.inquiry import Inquiry, inquire

_STATISTICS = ("scipy.special",)
_PAGE = ("matplotlib.backends.backend_svg", "jinja2", "profiler.render.page")


def ask_ahead(spec: Path) -> Inquiry:
    """Answers to come of this machine, for a run of an experiment file."""
    return inquire(spec.parent)


def import_ahead(*, page: bool) -> None:
    """Import modules of the statistics and, where a page is written, of its figures.

    While the first session starts, which takes seconds too. One that cannot be imported is an error
    where it is needed, and not here.
    """
    for name in (*_STATISTICS, *(_PAGE if page else ())):
        with suppress(ImportError):
            importlib.import_module(name)
