"""Statuses of cells by their facts alone, whichever record of a status holds them."""

from dataclasses import fields, replace

from profiler.model import CellStatus, Outcome


def status_of(cell, outcome=Outcome.MEASURED, cause="", **values):
    """A status with these facts."""
    return with_facts(CellStatus(cell, outcome, cause), **values)


def with_facts(status, **values):
    """A status with other facts, or with other values of its own."""
    for name in ("facts", "untimed", "tuning"):
        part = getattr(status, name)
        of_part = {field.name for field in fields(part)} & values.keys()
        status = replace(
            status, **{name: replace(part, **{key: values.pop(key) for key in of_part})}
        )
    return replace(status, **values)
