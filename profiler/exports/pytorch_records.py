"""Records of PyTorch's benchmark database, version 3: one for each metric of each cell.

Their form is the table `oss_ci_benchmark_v3` of `pytorch/test-infra`: values are lists of numbers,
whatever else is known stands in `extra_info` as text. Repository, branch, workflow and job are
those of the upload, which adds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from profiler.history.answers import Answer, RunAnswers

_NAME = "kernel-profiler"
_DTYPE = "dtype"


def pytorch_records(
    of_run: RunAnswers,
    durations_ns: Mapping[str, Sequence[float]],
    problems: Mapping[str, Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """A record of each answer.

    `durations_ns`: durations of the blocks, by cell; `problems`: parameters of the problem by cell.
    """
    run = of_run.run
    shared = {
        "timestamp": int(datetime.fromisoformat(run.created).timestamp()),
        "schema_version": "v3",
        "name": _NAME,
        "head_sha": run.commit,
        "runners": [
            {
                "type": run.machine,
                "gpu_info": run.machine.split(" \u00b7 ")[0],
                "gpu_count": 1,
                "extra_info": {"card": run.card},
            }
        ],
        "dependencies": {name: {"version": version} for name, version in run.versions.items()},
    }
    for answer in of_run.answers:
        params = problems.get(answer.cell, {})
        values = durations_ns.get(answer.cell, ()) if answer.metric == "duration_ns" else ()
        yield {
            **shared,
            "benchmark": {
                "name": run.experiment,
                "dtype": str(params.get(_DTYPE, "")),
                "extra_info": {"cell": answer.cell},
            },
            "model": {"name": answer.variant, "type": "kernel"},
            "inputs": {
                answer.problem: {
                    "dtype": str(params.get(_DTYPE, "")),
                    "extra_info": {key: str(value) for key, value in params.items()},
                }
            },
            "metric": {
                "name": answer.metric,
                "benchmark_values": list(values) or [answer.value],
                "extra_info": _extra(answer),
            },
        }


def _extra(answer: Answer) -> dict[str, str]:
    """What is known beside the values, as text."""
    fields = ("low", "high", "n", "ratio", "ratio_low", "ratio_high", "noise_floor", "verdict")
    known = {name: getattr(answer, name) for name in fields}
    return {name: str(value) for name, value in known.items() if value is not None}
