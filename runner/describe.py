"""`python -P profiler/runner/describe.py FILE OUT [NAME]`: writes the experiment of a Python file.

A process of its own, because the file imports torch and other packages, which the orchestrator
does not. Writes JSON to OUT: the description, or the error and its line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

if not __package__:  # started by its path; last, so that nothing beside the project is found first
    sys.path.append(str(Path(__file__).absolute().parents[2]))

from profiler.runner.error_text import line_in, telling_line
from profiler.runner.experiment import experiment_of
from profiler.runner.import_path import import_file, name_clash, syntax_excerpt
from profiler.runner.unused import unused_parts
from profiler.runner.variant_options import ExperimentError

_GRACE_S = 1.0
"""Seconds for threads and handlers at exit that the file leaves, once it is described."""


def main(file: Path, out: Path, name: str | None = None) -> None:
    """Write the description of a file, or of the experiment of this name in it."""
    out.write_text(json.dumps(_describe(file, name)), encoding="utf-8")


def _describe(file: Path, name: str | None) -> dict[str, Any]:
    try:
        experiment = experiment_of(import_file(file), name)
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, ExperimentError) else f"{type(error).__name__}: "
        message = str(error.msg if isinstance(error, SyntaxError) else error)
        text = telling_line(message) or "without a message"
        return {
            "error": f"{kind}{text}{syntax_excerpt(error)}",
            "line": line_in(error, file.resolve()),
            "name_clash": name_clash(error, file.resolve()),
        }
    if experiment is None:
        return {"experiment": None}
    try:
        notes = [*experiment.notes, *unused_parts(experiment)]
        return {"experiment": {**experiment.description(), "notes": notes}}
    except ExperimentError as error:
        return {"error": str(error), "line": experiment.line, "name_clash": ""}


if __name__ == "__main__":
    _, experiment_path, output_path, *names = sys.argv
    # Left as by Ctrl-C: torch's lock on an extension that is being compiled would stay otherwise.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.argv[1:] = []  # a file that parses its command line finds an empty one
    main(Path(experiment_path), Path(output_path), *names)
    end = threading.Timer(_GRACE_S, os._exit, [0])
    end.daemon = True
    end.start()
