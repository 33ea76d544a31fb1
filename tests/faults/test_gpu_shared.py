"""Other processes on the GPU while it is measured are seen by NVML, and named by their numbers."""

import os
import subprocess
from types import SimpleNamespace

import pytest
from run_folders import Workplace

from profiler.machine.clock_sampler import ClockSampler, GpuProcesses
from profiler.notices import NoticeKind, text
from profiler.parse.clock_file import CLOCKS_FILE
from profiler.run_folder.folder import AttemptResult
from profiler.run_folder.load.assemble import assemble

GIB = 2**30
OTHER, LATER = 4_194_500, 4_194_501
"""Beyond the largest process id of Linux: nobody has them."""


class Nvml(SimpleNamespace):
    """Answers one list of (process, bytes) after the other, and the last one for ever."""

    class NVMLError(Exception):
        pass

    def __init__(self, *lists):
        self.lists = list(lists)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802 - NVML's name
        now = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if now is None:
            raise self.NVMLError("not supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in now]


def seen(*lists):
    processes, nvml = GpuProcesses(), Nvml(*lists)
    for _ in lists:
        processes.look(nvml, "handle")
    return processes.other_processes()


def test_others_are_told_from_the_session_and_what_it_started():
    with subprocess.Popen(["sleep", "60"]) as session:
        ours = [(os.getpid(), GIB), (session.pid, GIB)]
        other_processes = seen([(OTHER, GIB)], [*ours, (OTHER, 3 * GIB)], [*ours, (LATER, None)])
        session.kill()
    assert other_processes == {str(OTHER): 3 * GIB, str(LATER): None}


def test_where_nvml_numbers_processes_otherwise_only_those_before_the_session_count():
    session_elsewhere = (LATER, GIB)
    assert seen([(OTHER, GIB)], [(OTHER, GIB), session_elsewhere]) == {str(OTHER): GIB}
    assert seen([], [session_elsewhere]) == {}


def test_a_session_that_waited_is_no_other_though_it_has_the_gpu_before_its_first_look():
    waited = (LATER, GIB)  # numbered otherwise than we do
    first, nvml = GpuProcesses(), Nvml([(OTHER, GIB)], [(OTHER, GIB), waited])
    first.look(nvml, "handle")
    following = first.for_next_session()
    following.look(nvml, "handle")
    assert following.other_processes() == {str(OTHER): GIB}
    gone = following.for_next_session()
    gone.look(Nvml([waited]), "handle")
    assert gone.other_processes() == {}


@pytest.mark.parametrize("lists", [[None], [[]], [[(OTHER, GIB)], None]])
def test_an_nvml_that_does_not_know_adds_nothing(lists):
    assert seen(*lists) == ({} if not lists[0] else {str(OTHER): GIB})


def test_without_nvml_or_a_gpu_there_is_nothing(tmp_path):
    processes = GpuProcesses()
    with ClockSampler(tmp_path, None, processes=processes):
        pass
    assert processes.other_processes() == {}
    assert not (tmp_path / CLOCKS_FILE).exists()


def test_what_was_seen_stands_in_the_report_of_the_run(tmp_path):
    place = Workplace(tmp_path)
    place.attempt(
        result=AttemptResult("finished", 1.0, gpu_processes={"4242": 3 * GIB, "77": None})
    )
    report = assemble(place.run, place.loaded, place.plan)
    (notice,) = [n for n in report.notices if n.kind is NoticeKind.GPU_SHARED]
    assert text(notice) == (
        "ncu-timing: other processes had the GPU open while it was measured: "
        "process 4242 (3.0 GiB), process 77."
    )
