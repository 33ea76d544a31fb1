"""The fingerprint of a machine, from a stand-in for NVML."""

import subprocess
from types import SimpleNamespace

import pytest

from profiler.machine import environment
from profiler.machine.environment import (
    Gpu,
    find_gpu,
    host_facts,
    nvcc_version_number,
    package_version,
    probe_environment,
    visible_gpus,
)


def test_an_architecture_is_the_one_that_is_asked_for_or_that_of_the_gpu_here(monkeypatch):
    gpus = iter([Gpu(compute_capability="9.0"), None])
    monkeypatch.setattr(environment, "find_gpu", lambda: next(gpus))
    assert environment.resolved_architecture("sm_80") == "sm_80"
    assert environment.resolved_architecture("auto") == "sm_90"
    assert environment.resolved_architecture("auto") is None


class FakeNvml:
    """Two GPUs, with the numbers of an H200."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    nvmlClocksEventReasonApplicationsClocksSetting = 2  # noqa: N815 - NVML's name

    class NVMLError(Exception):
        pass

    def __init__(self, uuids=("GPU-aaaa-1", "GPU-bbbb-2"), unsupported=(), driver=True):
        self.uuids, self.unsupported, self.driver = uuids, unsupported, driver
        self.open = 0

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self.answer(name, *arguments)

    def answer(self, name, *arguments):
        if name in self.unsupported or not self.driver:
            raise self.NVMLError(name)
        self.open += {"nvmlInit": 1, "nvmlShutdown": -1}.get(name, 0)
        fixed = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetCount": len(self.uuids),
            "nvmlDeviceGetName": b"NVIDIA H200",
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150109880320),
            "nvmlSystemGetDriverVersion": "580.159.04",
            "nvmlSystemGetCudaDriverVersion_v2": 12080,
            "nvmlDeviceGetClockInfo": 345,
            "nvmlDeviceGetMemoryBusWidth": 6016,
            "nvmlDeviceGetCurrentClocksEventReasons": 1 | 2,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=77)],
        }
        if name in fixed:
            return fixed[name]
        if name == "nvmlDeviceGetMaxClockInfo":
            return {1: 1980, 2: 3201}[arguments[1]]
        if name == "nvmlDeviceGetUUID":
            return self.uuids[arguments[0]]
        if name == "nvmlDeviceGetHandleByIndex":
            if arguments[0] >= len(self.uuids):
                raise self.NVMLError("no such index")
            return arguments[0]
        if name == "nvmlDeviceGetHandleByUUID":
            return self.uuids.index(arguments[0])
        raise AssertionError(name)


def test_gpu_is_described_and_nvml_closed():
    nvml = FakeNvml()
    assert find_gpu({}, nvml) == Gpu(
        name="NVIDIA H200",
        uuid="GPU-aaaa-1",
        compute_capability="9.0",
        memory_bytes=150109880320,
        driver="580.159.04",
        cuda_driver="12.8",
        max_sm_clock_mhz=1980,
        sm_clock_mhz=345,
        max_memory_clock_mhz=3201,
        memory_bus_bits=6016,
        application_clocks=True,
        compute_processes=(77,),
    )
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("visible", "uuid"),
    [
        (None, "GPU-aaaa-1"),
        ("1", "GPU-bbbb-2"),
        ("1,0", "GPU-bbbb-2"),
        ("GPU-bbbb", "GPU-bbbb-2"),
        ("", None),
        ("-1", None),
        ("7", None),
        ("GPU-cccc", None),
    ],
)
def test_first_visible_device(visible, uuid):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    gpu = find_gpu(environ, FakeNvml())
    assert (gpu.uuid if gpu else None) == uuid
    assert (find_gpu(environ, FakeNvml()) is not None) is (uuid is not None)


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-aaaa-1", "GPU-bbbb-2"]),
        ("1,0", ["GPU-bbbb-2", "GPU-aaaa-1"]),
        ("GPU-bbbb", ["GPU-bbbb-2"]),
        ("1,-1,0", ["GPU-bbbb-2"]),
        ("", []),
    ],
)
def test_gpus_are_numbered_as_cuda_numbers_what_is_visible(visible, uuids):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    nvml = FakeNvml()
    assert [gpu.uuid for gpu in visible_gpus(environ, nvml)] == uuids
    assert nvml.open == 0
    assert visible_gpus(environ, FakeNvml(driver=False)) == ()


def test_mig_instance_is_found_by_its_uuid():
    nvml = FakeNvml(uuids=("GPU-aaaa", "MIG-1234"))
    assert find_gpu({"CUDA_VISIBLE_DEVICES": "MIG-1234"}, nvml).uuid == "MIG-1234"


def test_no_driver_or_no_device_is_no_gpu():
    assert find_gpu({}, FakeNvml(driver=False)) is None
    assert find_gpu({}, FakeNvml(uuids=())) is None


def test_what_a_gpu_does_not_tell_is_missing_and_not_zero():
    unsupported = (
        "nvmlDeviceGetMemoryBusWidth",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlSystemGetCudaDriverVersion_v2",
    )
    gpu = find_gpu({}, FakeNvml(unsupported=unsupported))
    missing = (gpu.memory_bytes, gpu.cuda_driver, gpu.application_clocks, gpu.compute_processes)
    assert missing == (None, None, None, None)
    assert gpu.peak_dram_bytes_per_s is None


def test_peak_bandwidth_is_that_of_the_data_sheet():
    assert find_gpu({}, FakeNvml()).peak_dram_bytes_per_s == pytest.approx(4.8e12, rel=0.01)


def test_fingerprint_takes_over_what_was_found():
    gpu = find_gpu({}, FakeNvml())
    found = probe_environment(
        gpu=gpu, ncu_version="2025.3.1.0", clock_control="none", cache_control="all"
    )
    assert (found.gpu, found.gpu_uuid, found.ncu) == ("NVIDIA H200", "GPU-aaaa-1", "2025.3.1.0")
    assert (found.clock_control, found.cache_control) == ("none", "all")
    assert found.max_memory_clock_mhz == 3201
    assert (found.sm_count, found.l2_bytes) == (None, None)
    assert found.python is not None


def test_run_on_the_cpu_leaves_the_gpu_out():
    found = probe_environment(gpu=None)
    assert (found.gpu, found.driver, found.peak_dram_bytes_per_s) == (None, None, None)
    assert found.cpu


def test_versions_of_tools(tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    assert nvcc_version_number(nvcc) == "13.0.88"
    assert nvcc_version_number(tmp_path / "absent") is None
    assert package_version("no-such-package-of-anyone") is None


def test_the_commit_is_that_of_the_folder_of_the_experiment(tmp_path):
    def git(*arguments):
        settings = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(
            ["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True
        )

    assert host_facts(source=tmp_path)["git_commit"] is None
    git("init")
    (tmp_path / "spec.yaml").write_text("name: a\n")
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "inner/reports/sums").mkdir(parents=True)
    (tmp_path / "inner/reports/sums/run.json").touch()
    clean = host_facts(source=tmp_path)
    assert clean["git_commit"] is not None
    assert len(clean["git_commit"]) == 40
    assert clean["git_dirty"] is False
    (tmp_path / "spec.yaml").write_text("name: b\n")
    changed = host_facts(source=tmp_path)
    assert (changed["git_commit"], changed["git_dirty"]) == (clean["git_commit"], True)


def test_without_history_the_commit_can_be_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFILER_GIT_COMMIT", "abc123")
    named = host_facts(source=tmp_path)
    assert (named["git_commit"], named["git_dirty"]) == ("abc123", None)
