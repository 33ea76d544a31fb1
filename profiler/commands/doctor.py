"""`profiler doctor`: everything that a run needs, and what is missing."""

from __future__ import annotations

from dataclasses import asdict

from profiler.commands.output import write_json_target
from profiler.commands.requests import DoctorRequest
from profiler.errors import ExitCode
from profiler.model import SCHEMA_VERSION
from profiler.sessions.progress import make_console


def show_doctor(request: DoctorRequest) -> ExitCode:
    """Print every check with its remedy; ENVIRONMENT where something essential is missing."""
    from profiler.machine.doctor import essential_missing, examine

    checks = examine()
    document = {"schema_version": SCHEMA_VERSION, "checks": [asdict(check) for check in checks]}
    write_json_target(document, request.json_target)
    if request.json_target != "-":
        from profiler.render.console.lists import doctor_table

        make_console(request.color).print(doctor_table(checks))
    return ExitCode.ENVIRONMENT if essential_missing(checks) else ExitCode.COMPLETE
