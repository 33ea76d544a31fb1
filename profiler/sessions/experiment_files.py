"""Reading an experiment: YAML, or a Python file that a short process imports and describes."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from profiler import runner
from profiler.collect import STDERR, Command
from profiler.collect import read_text as read_output
from profiler.collect.timer import WALL_CLOCK
from profiler.errors import Interrupted, SpecError, UsageError, nearest_file
from profiler.machine.temporary_folders import temporary_folder
from profiler.outside_text import safe
from profiler.planning.python_files import (
    candidate_notes,
    definitions,
    new_models,
    public_functions,
)
from profiler.planning.spec import LoadedSpec, check_document, load_spec
from profiler.planning.spec.source import Document, FieldPath, as_yaml, read_text
from profiler.runner.experiment import NEW_MODEL
from profiler.runner.protocol import CANDIDATE, EXPERIMENT
from profiler.sessions.process import EndCause, run_session
from profiler.sessions.watchdog import Limits

DESCRIBE_LIMIT_S = 300.0
"""Imports of torch, JAX and Triton from a cold disk take a minute."""
SILENT_S = 15.0
"""Seconds after which a line says that a file is still being imported."""
_LOOK_S = 0.5
"""Seconds between two polls of a running script."""
_DESCRIBE = Path(runner.__file__).with_name("describe.py")
_REMEDY = "docs/python.md has a whole example."
_SCRIPT_REMEDY = 'Put what runs as a script under `if __name__ == "__main__":`.'
_MISSING_REMEDY = "Install it in the Python that runs the profiler."
_GPU_REMEDY = "What needs a GPU belongs into functions: the file is also imported without one."
_LOCK_REMEDY = (
    "Another process compiles this extension of torch, or was killed while it did: then delete the "
    "file `lock` in its build folder (below ~/.cache/torch_extensions, or TORCH_EXTENSIONS_DIR)."
)
_OF_GPU = re.compile(r"\bCUDA\b|\bGPU|NVIDIA|active drivers")
_REMEDIES = {
    ModuleNotFoundError.__name__: _MISSING_REMEDY,
    SystemExit.__name__: _SCRIPT_REMEDY,
    FileNotFoundError.__name__: "A path in the file is relative to the folder that the command "
    "runs in; Path(__file__).parent is that of the file.",
}
"""By the kind of error that importing a file ends with."""
_MOST_STDERR = 2000
"""Characters of the end of a process's stderr that an error quotes."""
_descriptions: dict[tuple[Path, str, str | None], Mapping[str, Any]] = {}
"""Description of each file by its content, and the experiment's name: a replay plans twice."""


def load_experiment(
    path: Path, *, overrides: Sequence[str] = (), candidate: Path | None = None
) -> LoadedSpec:
    """Read and check an experiment: a file of YAML, or of Python with a `profiler.Experiment`.

    `mine.py:backward` is the experiment of that name in a file with several. `candidate`: a file
    of functions, or one of them (`fast.py:sum_rows`), that the referee judges beside those of a
    Python file. Raises SpecError and UsageError as `load_spec`; SpecError where a Python file
    cannot be imported, takes too long, or holds no experiment.
    """
    file, name = file_and_name(path)
    if file.suffix != ".py":
        if candidate is not None:
            raise UsageError(
                "The referee judges beside functions of a Python file, not beside YAML.",
                remedy="docs/referee.md has an example.",
            )
        return load_spec(file, overrides=overrides)
    description = _described_experiment(file, name)
    notes = description["notes"]
    if candidate is not None:
        candidate, only = file_and_name(candidate)
        description = with_candidate(description, file, candidate, only)
        # What the functions of a candidate read is not known.
        is_noted = only is None and not description["has_modules"]
        notes = candidate_notes(candidate) if is_noted else ()
    loaded = check_document(document_of(file, description, name), overrides=overrides)
    return replace(loaded, notes=tuple(notes))


_REFEREED = {"collectors": [WALL_CLOCK.name], "explain": False, "recheck": False}
"""Settings of an experiment with a referee, which times and checks each launch itself."""


def with_candidate(
    description: Mapping[str, Any], task: Path, candidate: Path, only: str | None
) -> Mapping[str, Any]:
    """A description with the functions of a candidate's file as variants, judged by the referee.

    The file is read, and not run. Raises SpecError where it has no such function, or one that the
    experiment has too.
    """
    read = new_models if description["has_modules"] else public_functions
    functions = [f for f in read(candidate) if only in (None, f.name)]
    if not functions and description["has_modules"]:
        raise SpecError(
            f"{candidate}: has no class {only or NEW_MODEL}",
            remedy=f"{task.name} is a task of KernelBench: its answer is a class {NEW_MODEL} "
            "(docs/python.md).",
        )
    if not functions:
        missing_function = "no function" if only is None else f"no function {only}"
        raise SpecError(
            f"{candidate}: has {missing_function} that stands by itself",
            remedy="The referee judges functions without decorators whose names begin with no "
            "underscore (docs/referee.md).",
        )
    function_names = {variant["params"]["function"] for variant in description["variants"]}
    for function in functions:
        if function.name in function_names:
            raise SpecError(
                f"{candidate}:{function.line}: {function.name} is a variant of {task.name}, too",
                remedy="Give it another name.",
            )
    variants = [
        {"name": name, "params": params, "note": function.note, "line": description["line"]}
        for function in functions
        for name, params in function.variants()
    ]
    fields = description["fields"]
    return {
        **description,
        "name": f"{description['name']}-referee",
        "candidate": Path(os.path.relpath(candidate, task.parent)).as_posix(),
        "variants": [*description["variants"], *variants],
        "fields": {**fields, "collect": {**fields.get("collect", {}), **_REFEREED}},
    }


def file_and_name(path: Path) -> tuple[Path, str | None]:
    """A file, and the name of the experiment in it where one stands behind a colon."""
    stem, separator, name = path.name.partition(".py:")
    if not separator or path.exists():
        return path, None
    return path.with_name(f"{stem}.py"), name


def _described_experiment(path: Path, name: str | None) -> Mapping[str, Any]:
    try:
        key = path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest(), name
    except FileNotFoundError as error:
        raise SpecError(f"{path}: there is no such file{nearest_file(path)}") from error
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    if key not in _descriptions:
        _descriptions[key] = _describe(path, name)
    return _descriptions[key]


def _describe(path: Path, name: str | None) -> Mapping[str, Any]:
    """Description of the experiment in a file, by a process that imports it."""
    with temporary_folder() as folder:
        out = folder / "description.json"
        name_arguments = [] if name is None else [name]
        ended = _run([str(_DESCRIBE), str(path), str(out), *name_arguments], folder)
        answer = json.loads(out.read_text("utf-8")) if out.exists() else {}
        stderr_tail = read_output(folder / STDERR).strip()[-_MOST_STDERR:]
    if "error" in answer:
        line = f":{answer['line']}" if answer["line"] else ""
        kind = answer["error"].partition(":")[0]
        remedy = _REMEDIES.get(kind, _GPU_REMEDY if _OF_GPU.search(answer["error"]) else _REMEDY)
        if answer["name_clash"]:
            remedy = f"{answer['name_clash']}."
        raise SpecError(f"{path}{line}: {answer['error']}", remedy=remedy)
    if "experiment" not in answer:
        remedy = _LOCK_REMEDY if "file_baton.py" in stderr_tail else _REMEDY
        raise SpecError(f"{path}: {ended}", remedy=f"{remedy}\n{stderr_tail}".strip())
    description: Mapping[str, Any] | None = answer["experiment"]
    if description is None:
        names = [name for name, _ in definitions(ast.parse(path.read_bytes()).body)]
        alike = next(iter(difflib.get_close_matches("inputs", names, n=1)), None)
        raise SpecError(
            f"{path}: defines no profiler.Experiment, and no function `inputs` that makes the "
            f"inputs of plain functions{f' ({alike} is none)' if alike else ''}",
            remedy=f"{_REMEDY} A file of functions make_inputs, reference and prepare is a "
            "workload, which an experiment file names (docs/workloads.md).",
        )
    return description


def _run(script: Sequence[str], folder: Path) -> str:
    """Error of a script, in words; it runs behind a guard, and stderr says if it is slow."""
    speak_at = time.monotonic() + SILENT_S

    def say_once() -> None:
        nonlocal speak_at
        if time.monotonic() >= speak_at:
            speak_at = math.inf
            sys.stderr.write(
                f"Importing {safe(script[1])} takes long; it is ended after "
                f"{DESCRIBE_LIMIT_S:.0f} s.\n"
            )
            sys.stderr.flush()

    try:
        end = run_session(
            Command((sys.executable, "-P", *script)),
            folder=folder,
            limits=Limits(step_s=DESCRIBE_LIMIT_S, grace_s=0.0),
            journal=None,
            on_look=say_once,
            poll_s=_LOOK_S,
        )
    except Interrupted:  # nothing is measured here
        raise KeyboardInterrupt from None
    if end.cause is EndCause.TIMED_OUT:
        return f"importing it took longer than {DESCRIBE_LIMIT_S:.0f} s, and was ended"
    code = end.returncode
    name = f" ({signal.Signals(-code).name})" if code < 0 else ""
    return f"the process that imports it ended with exit code {code}{name}"


_KEYS = ("name", "params", "note", "when", "tolerance", "env", "tags", "trust", "reason")
"""Optional keys of a variant."""


def document_of(path: Path, description: Mapping[str, Any], name: str | None = None) -> Document:
    """Experiment file that a `profiler.Experiment.description` of a Python file stands for.

    `name`: of the experiment, where it was named because the file has several. Its text is what a
    run folder keeps; errors name lines of the Python file.
    """
    data = {
        "name": description["name"],
        **({"inputs": description["inputs"]} if description["inputs"] else {}),
        "workload": _workload(path.name, name, description.get(CANDIDATE)),
        "variants": {
            "list": [
                {key: variant[key] for key in _KEYS if variant.get(key)}
                for variant in description["variants"]
            ]
        },
        **_problems(description["problems"]),
        **({"baseline": description["baseline"]} if description["baseline"] is not None else {}),
        **description["fields"],
    }
    file_name = " ".join(path.name.splitlines())  # a comment is one line
    text = f"# Made from the functions of {file_name}.\n{as_yaml(data)}"
    named_path = path if name is None else path.with_name(f"{path.name}:{name}")
    return replace(read_text(named_path, text), lines=_lines(description))


def _workload(file: str, experiment: str | None, candidate: str | None) -> Any:
    """The section of the workload: a file name alone where no other key is set."""
    fields = {EXPERIMENT: experiment, CANDIDATE: candidate}
    set_fields = {key: value for key, value in fields.items() if value is not None}
    return {"module": f"./{file}", **set_fields} if set_fields else f"./{file}"


def _problems(problems: Any) -> dict[str, Any]:
    """The section of problems: a matrix of a mapping, or a list."""
    if problems is None:
        return {}
    if isinstance(problems, dict):
        return {"problems": {"matrix": problems}}
    # All keys of a mapping are parameters, also a key called `name`.
    items = [{"params": problem} if isinstance(problem, dict) else problem for problem in problems]
    return {"problems": {"list": items}}


def _lines(description: Mapping[str, Any]) -> dict[FieldPath, int]:
    lines: dict[FieldPath, int] = {(): description["line"]}
    for number, variant in enumerate(description["variants"]):
        lines["variants", "list", number] = variant["line"]
    return lines
