"""`profiler schema`: the JSON Schema of the experiment file."""

from __future__ import annotations

import json
import sys

from profiler.errors import ExitCode
from profiler.planning.spec import json_schema


def show_schema() -> ExitCode:
    """Print the schema; the command has no flags, and so no request."""
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
    return ExitCode.COMPLETE
