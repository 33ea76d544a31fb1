"""External commands as workloads: `./sgemm {kernel} {size}` filled in for one cell.

The template is split into arguments before anything is filled in, and no shell ever sees it, so a
value with spaces or quotes stays one argument.
"""

from __future__ import annotations

import difflib
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter

from profiler.errors import SpecError
from profiler.model import Cell

Value = str | int | float | bool | None


def split(template: str | Sequence[str]) -> tuple[str, ...]:
    """Arguments of a template, by the rules of a POSIX shell; a sequence is taken as it is."""
    if not isinstance(template, str):
        arguments = tuple(template)
    else:
        try:
            arguments = tuple(shlex.split(template))
        except ValueError as error:
            raise SpecError(
                f"command {template!r}: {error}", remedy="Close every quote, or give a list."
            ) from error
    if not arguments:
        raise SpecError("command is empty", remedy="Name the program: command: ./sgemm {kernel}")
    return arguments


def placeholders(template: str | Sequence[str]) -> tuple[str, ...]:
    """Names of all placeholders of a template, each once, in order of appearance."""
    names = (
        name for argument in split(template) for _, name in _pieces(argument) if name is not None
    )
    return tuple(dict.fromkeys(names))


def cell_values(cell: Cell) -> dict[str, Value]:
    """Values that a command may use for a cell: its parameters, `variant` and `problem` (names).

    Raises SpecError where variant and problem give different values to the same parameter.
    """
    values: dict[str, Value] = {"variant": cell.variant.name, "problem": cell.problem.name}
    values.update(cell.problem.params)
    for key, value in cell.variant.params.items():
        if key in cell.problem.params and cell.problem.params[key] != value:
            raise SpecError(
                f"{cell.id}: parameter {key!r} is {value!r} in the variant and "
                f"{cell.problem.params[key]!r} in the problem",
                remedy="Give the two parameters different names.",
            )
        values[key] = value
    return values


def fill(template: str | Sequence[str], values: Mapping[str, Value]) -> tuple[str, ...]:
    """Command line of one cell; raises SpecError for a placeholder that `values` does not have.

    Braces that belong to the command itself are written doubled: `{{` and `}}`.
    """
    return tuple(_fill_argument(argument, values) for argument in split(template))


def find_program(argv: Sequence[str], folder: Path) -> Path:
    """Where the program of a command line is: on PATH, or relative to `folder`."""
    name = argv[0]
    candidate = str(folder / name) if "/" in name else name
    found = shutil.which(candidate)
    if found is None:
        raise SpecError(
            f"command: no program {name!r} that can be run"
            + (f" in {folder}" if "/" in name else " on PATH"),
            remedy="Build it first, or give its path relative to the experiment file.",
        )
    return Path(found)


def _fill_argument(argument: str, values: Mapping[str, Value]) -> str:
    parts: list[str] = []
    for literal, name in _pieces(argument):
        parts.append(literal)
        if name is not None:
            parts.append(_text(name, _lookup(name, values)))
    return "".join(parts)


def _pieces(argument: str) -> list[tuple[str, str | None]]:
    """Literal text and the placeholder behind it; only plain `{name}` is a placeholder."""
    try:
        pieces = list(Formatter().parse(argument))
    except ValueError as error:
        raise SpecError(
            f"command argument {argument!r}: {error}",
            remedy="Write braces of your own doubled: {{ and }}.",
        ) from error
    for _, name, format_spec, conversion in pieces:
        if name is not None and (format_spec or conversion or not name.isidentifier()):
            raise SpecError(
                f"command argument {argument!r}: {{{name}}} is not a plain placeholder",
                remedy="Use {key} with the name of a parameter; no format, index or attribute.",
            )
    return [(literal, name) for literal, name, _, _ in pieces]


def _lookup(name: str, values: Mapping[str, Value]) -> Value:
    if name in values:
        return values[name]
    close = difflib.get_close_matches(name, values, n=1)
    hint = f"Did you mean {{{close[0]}}}? " if close else ""
    raise SpecError(
        f"command: unknown placeholder {{{name}}}",
        remedy=f"{hint}Known are: {', '.join(sorted(values))}.",
    )


def _text(name: str, value: Value) -> str:
    if value is None:
        raise SpecError(
            f"command: placeholder {{{name}}} has no value (null)",
            remedy="Give the parameter a value in every variant and problem.",
        )
    if isinstance(value, bool):
        return "true" if value else "false"  # as YAML spells it
    return str(value)
