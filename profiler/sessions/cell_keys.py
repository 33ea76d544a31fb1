"""The key of a cell: a hash of everything that could change its numbers.

Resume uses a sample only where the key of its cell is still the same, so that an edited kernel, a
new driver or another tolerance measures that cell again and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from profiler.collect import Need
from profiler.collect.registry import is_needed, kinds_of
from profiler.metrics.queries import expand
from profiler.model import BuildResult, Cell, Environment
from profiler.planning.spec import Experiment
from profiler.sessions.execution import Execution
from profiler.sessions.sources import source_hashes, variables_now

MACHINE_FIELDS = ("gpu", "gpu_uuid", "driver", "ncu", "torch", "python", "cpu")


def cell_keys(
    cells: Sequence[Cell],
    *,
    experiment: Experiment,
    builds: Mapping[str, BuildResult],
    environment: Environment,
    base: Path,
) -> dict[str, str]:
    """Key of every cell.

    `builds` by variant id; `base` is the folder of the spec. How many blocks are measured and how
    long a visit may take are not part of the key: more blocks add to the old ones, and a longer
    limit gives those that hung another chance. Neither is whether and how timelines are made and
    cells explained: no other session depends on it.
    """
    variables = variables_now(experiment, base)
    shared = {
        "machine": measuring_machine(environment, experiment),
        **settings_in_keys(experiment),
        **({"variables": variables} if variables else {}),
    }
    sources = source_hashes(experiment, base, cells)
    return {
        cell.id: _key(cell, builds.get(cell.variant.id), sources[cell.id], shared) for cell in cells
    }


def keys_of(execution: Execution, builds: Sequence[BuildResult]) -> dict[str, str]:
    """Key of each cell of a plan as it is measured today, with these builds."""
    return cell_keys(
        execution.plan.cells,
        experiment=execution.loaded.experiment,
        builds={build.variant: build for build in builds},
        environment=execution.machine.environment,
        base=execution.loaded.base,
    )


def measuring_machine(environment: Environment, experiment: Experiment) -> dict[str, str | None]:
    """Fields of an environment that could change numbers; ncu's version only where ncu measures."""
    facts = {name: getattr(environment, name) for name in MACHINE_FIELDS}
    return facts if is_needed(experiment.collect.collectors, Need.NCU) else facts | {"ncu": None}


def settings_in_keys(experiment: Experiment) -> dict[str, object]:
    """Settings of an experiment that are part of the key of each of its cells."""
    collect = experiment.collect
    # A group of metrics may grow with the catalogue.
    metrics = {"metrics": sorted(expand(collect.measured_metrics))}
    judged = [kind.name for kind in kinds_of(collect.collectors) if kind.judged]
    return {
        "workload": _workload_in_keys(experiment),
        "collect": collect.model_dump(
            mode="json",
            exclude={
                "blocks",
                "final_blocks",
                "counter_samples",
                "time_limit_s",
                "timeline",
                "explain",
                "recheck",
                # Only for another value than the one before it became a setting.
                *(["replay_mode"] if collect.replay_mode == "kernel" else []),
                *(["recompile"] if not collect.recompile else []),
                *(["child_processes"] if collect.child_processes else []),
                *(["sustained_s"] if "sustained" not in judged else []),
            },
        )
        | metrics
        | {"collectors": judged, "cache_control": experiment.cache_control},
        "tolerance": {k: v.model_dump(mode="json") for k, v in experiment.tolerance.items()},
    }


def _workload_in_keys(experiment: Experiment) -> dict[str, object]:
    """The workload, without the name of an experiment where it has none: as keys were before."""
    dumped = experiment.workload.model_dump(mode="json")
    return {key: value for key, value in dumped.items() if (key, value) != ("experiment", None)}


def _key(cell: Cell, build: BuildResult | None, sources: str, shared: Mapping[str, object]) -> str:
    document = {
        **shared,
        "sources": sources,
        "variant": dict(cell.variant.params),
        "name": cell.variant.name,
        "problem": dict(cell.problem.params),
        # Only where it has one: others keep the key that they had before there was any.
        **({"tolerance": cell.variant.tolerance} if cell.variant.tolerance else {}),
        **({"env": dict(cell.variant.env)} if cell.variant.env else {}),
        "binary": (build.code_hash or build.recipe_hash) if build else None,
    }
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
