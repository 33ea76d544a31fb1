"""The doctor's checks on made-up machines."""

import sys
from pathlib import Path

import pytest

from profiler import doctor
from profiler.doctor import Check, Machine, Status, essential_missing, examine
from profiler.environment import Gpu
from profiler.execute.lock import gpu_lock

FAKE_NCU = Path(__file__).parents[1] / "fake_ncu/ncu"
H200 = Gpu(
    name="NVIDIA H200",
    uuid="GPU-1",
    compute_capability="9.0",
    driver="580.159.04",
    cuda_driver="13.0",
    max_sm_clock_mhz=1980,
    sm_clock_mhz=345,
    application_clocks=False,
    compute_processes=(),
)


def program(path, body=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path):
    """A machine that has everything."""
    tools = tmp_path / "bin"
    program(tools / "nvcc", "echo 'release 13.0, V13.0.88'")
    for name in ("g++", "nsys", "ninja"):
        program(tools / name)
    python = program(tmp_path / "py/python", "echo '2.13.0 13.0 True'")
    driver = tmp_path / "proc/driver/nvidia"
    driver.mkdir(parents=True)
    (driver / "params").write_text("Mobile: 4294967295\nRmProfilingAdminOnly: 0\n")
    (tmp_path / "locks").mkdir()
    return Machine(
        environ={"PROFILER_NCU": str(FAKE_NCU), "PATH": f"{tools}:/usr/bin:/bin"},
        root=tmp_path,
        python=str(python),
        out=tmp_path / "reports/not/yet/there",
        lock_folder=tmp_path / "locks",
    )


def by_name(checks):
    return {check.name: check for check in checks}


def set_admin_only(machine, capabilities):
    (machine.root / "proc/driver/nvidia/params").write_text("RmProfilingAdminOnly: 1\n")
    status = machine.root / "proc/self/status"
    status.parent.mkdir(exist_ok=True)
    status.write_text(f"Name:\tx\nCapEff:\t{capabilities:016x}\n")


def test_a_machine_with_everything(machine):
    checks = examine(machine, H200)
    assert essential_missing(checks) == ()
    assert {check.name for check in checks if check.status is not Status.OK} <= {"clocks", "disk"}
    found = by_name(checks)
    assert found["GPU"].detail == "NVIDIA H200, sm_90, driver 580.159.04 (CUDA 13.0)"
    assert found["ncu"].detail.startswith("2025.3.1.0 (")
    assert found["torch"].detail == "2.13.0, CUDA 13.0"
    assert found["nvcc"].detail.startswith("13.0.88")


def test_names_are_unique_and_everything_missing_has_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "find_gpu", lambda environ: None)
    bare = Machine(
        environ={"PATH": ""}, root=tmp_path, python=str(tmp_path / "none"), lock_folder=tmp_path
    )
    checks = examine(bare)
    assert len(by_name(checks)) == len(checks)
    missing = [check for check in checks if check.status is Status.MISSING]
    assert all(check.remedy for check in missing)
    assert {check.name for check in essential_missing(checks)} == {"GPU", "ncu", "torch"}


def test_old_ncu(machine, monkeypatch):
    monkeypatch.setenv("FAKE_NCU_MODE", "old_version")
    check = doctor.check_ncu(machine)
    assert check.status is Status.MISSING
    assert "2025.1 or newer" in check.detail


@pytest.mark.parametrize(
    ("capabilities", "driver", "status"),
    [
        (0, "580.1", Status.MISSING),
        (1 << 21, "535.1", Status.OK),
        (1 << 38, "580.1", Status.OK),
        (1 << 38, "550.1", Status.MISSING),
        ((1 << 21) - 1, "580.1", Status.MISSING),
    ],
)
def test_restricted_counters_need_a_capability(machine, capabilities, driver, status):
    set_admin_only(machine, capabilities)
    check = doctor.check_counters(machine, Gpu(driver=driver))
    assert (check.status, check.essential) == (status, True)
    if status is Status.MISSING:
        assert "NVreg_RestrictProfilingToAdminUsers=0" in check.remedy


def test_unknown_permission_is_a_warning(machine):
    (machine.root / "proc/driver/nvidia/params").unlink()
    assert doctor.check_counters(machine, H200).status is Status.WARNING


def test_lock_of_another_run_is_a_warning(machine):
    with gpu_lock("GPU-1", timeout_s=5, on_wait=print, folder=machine.lock_folder):
        assert doctor.check_lock(machine, H200).status is Status.WARNING
    assert doctor.check_lock(machine, H200).status is Status.OK


def test_other_processes_are_named():
    check = doctor.check_processes(Gpu(compute_processes=(12, 34)))
    assert check.status is Status.WARNING
    assert "12, 34" in check.detail
    assert doctor.check_processes(Gpu(compute_processes=None)).detail == "unknown"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo '2.13.0+cpu None False'", "has no CUDA support"),
        ("echo '2.13.0 13.0 False'", "sees no GPU"),
        ("echo \"No module named 'torch'\" >&2; exit 1", "No module named 'torch'"),
        ("exit 4", "exit code 4"),
    ],
)
def test_torch_that_cannot_measure_is_missing(machine, body, words):
    program(Path(machine.python), body)
    check = doctor.check_torch(machine)
    assert (check.status, check.essential) == (Status.MISSING, True)
    assert words in check.detail


def test_torch_is_not_imported_here():
    import subprocess

    code = "import sys, profiler.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_clocks_that_are_held_are_fine():
    held = Gpu(max_sm_clock_mhz=1980, application_clocks=True)
    assert doctor.check_clocks(held).status is Status.OK
    assert doctor.check_clocks(None).status is Status.WARNING


def test_only_essential_and_missing_checks_count():
    checks = [
        Check("a", Status.MISSING, "", essential=True),
        Check("b", Status.MISSING, ""),
        Check("c", Status.WARNING, "", essential=True),
    ]
    assert [check.name for check in essential_missing(checks)] == ["a"]
