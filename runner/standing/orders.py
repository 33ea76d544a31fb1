"""Orders to a standing session: cells to prepare and visits to make, as they come.

JSON lines in a file beside the job, which the orchestrator appends to and the runner follows.
Standard library only, as `protocol.py`: both sides import it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from profiler.runner.protocol import JobCell, JobVisit, cell_of

_POLL_S = 0.004
"""Far less than anything takes that a line asks for, and no load beside a launch."""


@dataclass(frozen=True)
class Order:
    """Work for a standing session, one problem after the other."""

    number: int
    cells: tuple[JobCell, ...] = ()
    """Cells that are visited here for the first time."""
    visits: tuple[JobVisit, ...] = ()
    repeats: Mapping[str, int] = field(default_factory=dict)
    """Timed launches of a visit by problem; those of the job where it is not named."""
    forget: tuple[str, ...] = ()
    """Cells that no later order visits; they are forgotten first."""
    last: bool = False
    """Whether the session ends after it."""


def append_order(path: Path, order: Order) -> None:
    """Write an order behind the others."""
    append_line(path, json.dumps(asdict(order), separators=(",", ":")).encode())


def append_line(path: Path, line: bytes) -> None:
    """Write a line behind the others, for whoever follows the file."""
    with path.open("ab") as stream:
        stream.write(line + b"\n")


def follow_lines(path: Path) -> Iterator[bytes]:
    """Lines of a file as they come, without their ends; waits for each, as long as it takes."""
    rest = b""
    with path.open("rb") as stream:
        while True:
            content = stream.read()
            if not content:
                time.sleep(_POLL_S)
                continue
            *lines, rest = (rest + content).split(b"\n")
            yield from lines


def follow_orders(path: Path) -> Iterator[Order]:
    """Orders as they come, up to the last one; waits for each, as long as it takes."""
    for line in follow_lines(path):
        order = read_order(line)
        yield order
        if order.last:
            return


def read_order(line: bytes) -> Order:
    """An order of one line; raises ValueError, KeyError or TypeError where it is none."""
    data = json.loads(line)
    return Order(
        **{
            **data,
            "cells": tuple(map(cell_of, data["cells"])),
            "visits": tuple(JobVisit(**visit) for visit in data["visits"]),
            "forget": tuple(data["forget"]),
        }
    )
