"""Which GPU measured what, of a run that several workers measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profiler.model import Plan
from profiler.notices import Notice, NoticeKind
from profiler.run_folder.folder import Worker
from profiler.run_folder.load.attempts import Loaded


def worker_notices(plan: Plan, attempts: Sequence[Loaded]) -> Iterator[Notice]:
    """Notice of the problems that each GPU measured, where there are several GPUs."""
    problem_of = {cell.id: cell.problem for cell in plan.cells}
    problems: dict[Worker, dict[str, None]] = {}
    for loaded in attempts:
        worker = loaded.attempt.worker
        names = [problem_of[cell].name for cell in sorted(loaded.current) if cell in problem_of]
        if worker is not None and names:
            problems.setdefault(worker, {}).update(dict.fromkeys(names))
    if len(problems) > 1:
        ordered = sorted(problems, key=lambda worker: (len(worker.name), worker.name))
        listed = "; ".join(
            f"{worker.name} ({worker.gpu_uuid or 'no UUID'}) {', '.join(problems[worker])}"
            for worker in ordered
        )
        yield Notice(NoticeKind.SEVERAL_GPUS, {"count": len(problems), "workers": listed})
