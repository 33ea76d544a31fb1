"""Imports what the end of a run needs, while its first session starts, which takes seconds too."""

from __future__ import annotations

import importlib
from contextlib import suppress

_STATISTICS = ("scipy.special",)
_PAGE = ("matplotlib.backends.backend_svg", "jinja2", "profiler.render.page")


def import_ahead(*, page: bool) -> None:
    """Import modules of the statistics and, where a page is written, of its figures.

    One that cannot be imported is an error where it is needed, and not here.
    """
    for name in (*_STATISTICS, *(_PAGE if page else ())):
        with suppress(ImportError):
            importlib.import_module(name)
