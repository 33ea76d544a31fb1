"""The experiment of a Python file as the experiment file that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from profiler.planning.spec.source import Document, FieldPath, as_yaml, read_text
from profiler.runner.protocol import EXPERIMENT

_KEYS = ("name", "params", "note", "when", "tolerance", "env", "tags")
"""Of a variant, as far as it has them."""


def document_of(path: Path, description: Mapping[str, Any], name: str | None = None) -> Document:
    """Experiment file of what `profiler.Experiment.description` gave of a Python file.

    `name`: of the experiment, where it was named because the file has several. Its text is what a
    run folder keeps; errors name lines of the Python file.
    """
    data = {
        "name": description["name"],
        **({"inputs": description["inputs"]} if description["inputs"] else {}),
        "workload": (
            f"./{path.name}" if name is None else {"module": f"./{path.name}", EXPERIMENT: name}
        ),
        "variants": {
            "list": [
                {key: variant[key] for key in _KEYS if variant.get(key)}
                for variant in description["variants"]
            ]
        },
        **_problems(description["problems"]),
        **_baseline(description["baseline"]),
        **description["fields"],
    }
    text = f"# Made from the functions of {path.name}.\n{as_yaml(data)}"
    shown = path if name is None else path.with_name(f"{path.name}:{name}")
    return replace(read_text(shown, text), lines=_lines(description))


def _problems(problems: Any) -> dict[str, Any]:
    """The section of problems: combinations of a mapping, or one by one."""
    if problems is None:
        return {}
    if isinstance(problems, dict):
        return {"problems": {"matrix": problems}}
    return {"problems": {"list": [_item(problem) for problem in problems]}}


def _item(problem: Any) -> Any:
    """An item of a list; its keys are parameters, and one called `name` is no name."""
    return {"params": problem} if isinstance(problem, dict) else problem


def _baseline(name: str | None) -> dict[str, Any]:
    return {} if name is None else {"baseline": name}


def _lines(description: Mapping[str, Any]) -> dict[FieldPath, int]:
    lines: dict[FieldPath, int] = {(): description["line"]}
    for number, variant in enumerate(description["variants"]):
        lines["variants", "list", number] = variant["line"]
    return lines
