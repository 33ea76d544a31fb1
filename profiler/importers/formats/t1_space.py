"""Spaces to search in the format T1, which hold no results."""

from __future__ import annotations

import re

from profiler.importers.importer import not_read

_IS_T1 = re.compile(r'^\s*\{(?=.*"ConfigurationSpace"\s*:)(?=.*"TuningParameters"\s*:)', re.DOTALL)


def _is_in(text: str) -> bool:
    return _IS_T1.match(text) is not None


IMPORTER = not_read(
    "a space to search in the format T1",
    _is_in,
    "Search it: `simulate` and `search.space` of an experiment take it (docs/search.md); its "
    "results, in the format T4, are imported.",
)
