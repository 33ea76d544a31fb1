"""The task of a worker to say what machine it is."""

from __future__ import annotations

import json
from dataclasses import asdict

from distributed import get_worker

from profiler.cluster.job import spec_of_text
from profiler.errors import ProfilerError
from profiler.machine.requirements import find_machine


def describe_machine(order: str) -> str:
    """Environment of this machine for an experiment, as JSON; or why it cannot do it."""
    values = json.loads(order)
    try:
        loaded = spec_of_text(values["spec_path"], values["spec_text"], values["overrides"])
        machine = find_machine(loaded.experiment, loaded.base, timeline=values["timeline"])
    except ProfilerError as error:
        address = get_worker().address
        return json.dumps({"failed": error.message, "remedy": error.remedy, "address": address})
    return json.dumps({"environment": asdict(machine.environment), "device": machine.device})
