"""Whether two runs were made on one machine, as far as that was recorded."""

from __future__ import annotations

from enum import StrEnum

from profiler.model import Environment


class Machines(StrEnum):
    """Relation of the machines of two runs."""

    SAME = "same_gpu"
    OTHER_CHIP = "another_gpu_of_the_same_model"
    SAME_MODEL = "same_model"
    """Whether it is the same chip was not recorded."""
    DIFFERENT = "different_machines"


def machines_of(older: Environment, newer: Environment) -> Machines:
    """Tell the machines apart by model and UUID of the GPU; without a GPU, by the processor."""
    if older.gpu != newer.gpu or (older.gpu is None and older.cpu != newer.cpu):
        return Machines.DIFFERENT
    if older.gpu_uuid is None or newer.gpu_uuid is None:
        return Machines.SAME_MODEL
    return Machines.SAME if older.gpu_uuid == newer.gpu_uuid else Machines.OTHER_CHIP
