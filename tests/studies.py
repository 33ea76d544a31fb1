"""Where the workloads of this repository lie, which are no part of the package."""

from pathlib import Path

STUDIES = Path(__file__).resolve().parents[1] / "kernels"


def workload_of(study):
    """Path of a study's workload, as an experiment or a job names it."""
    return str(STUDIES / study / "workload.py")
