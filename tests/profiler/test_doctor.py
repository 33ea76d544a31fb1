"""The doctor's checks on made-up machines."""

import py_compile
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.errors import EnvironmentUnusable
from profiler.machine import doctor
from profiler.machine.doctor import Check, InspectedMachine, Status, missing_essentials, run_checks
from profiler.machine.environment import Gpu
from profiler.machine.installs import duration_by_cupti
from profiler.machine.locks import gpu_lock

FAKE_NCU = Path(__file__).parents[1] / "fake_ncu/ncu"
NSYS_VERSION = "echo 'NVIDIA Nsight Systems version 2025.3.2.367-253236082862v0'"
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
def machine(tmp_path, monkeypatch):
    """A machine that has everything."""
    monkeypatch.setattr(doctor, "duration_by_cupti", lambda python: 2144.0)
    tools = tmp_path / "bin"
    program(tools / "nvcc", "echo 'release 13.0, V13.0.88'")
    for name in ("g++", "ninja"):
        program(tools / name)
    program(tools / "nsys", NSYS_VERSION)
    program(tmp_path / "host-linux-x64/QdstrmImporter", "echo 2025.3.2.367")
    python = program(tmp_path / "py/python", "echo '2.13.0 13.0 True'")
    driver = tmp_path / "proc/driver/nvidia"
    driver.mkdir(parents=True)
    (driver / "params").write_text("Mobile: 4294967295\nRmProfilingAdminOnly: 0\n")
    (tmp_path / "locks").mkdir()
    return InspectedMachine(
        environ={"PROFILER_NCU": str(FAKE_NCU), "PATH": f"{tools}:/usr/bin:/bin"},
        root=tmp_path,
        python=str(python),
        out=tmp_path / "reports/not/yet/there",
        lock_folder=tmp_path / "locks",
        cache=tmp_path / "cache/torch.json",
    )


def by_name(checks):
    return {check.name: check for check in checks}


def set_admin_only(machine, capabilities):
    (machine.root / "proc/driver/nvidia/params").write_text("RmProfilingAdminOnly: 1\n")
    status = machine.root / "proc/self/status"
    status.parent.mkdir(exist_ok=True)
    status.write_text(f"Name:\tx\nCapEff:\t{capabilities:016x}\n")


def test_a_machine_with_everything(machine):
    checks = run_checks(machine, H200)
    assert missing_essentials(checks) == ()
    assert {check.name for check in checks if check.status is not Status.OK} <= {"clocks", "disk"}
    found = by_name(checks)
    assert found["GPU"].detail == "NVIDIA H200, sm_90, driver 580.159.04 (CUDA 13.0)"
    assert found["ncu"].detail.startswith("2025.3.1.0 (")
    assert found["torch"].detail == "2.13.0, CUDA 13.0"
    assert found["nvcc"].detail.startswith("13.0.88")


def test_nvcc_is_found_where_a_build_finds_it(machine, tmp_path, monkeypatch):
    toolkit = tmp_path / "toolkit"
    (tmp_path / "bin/nvcc").unlink()
    monkeypatch.setattr("profiler.machine.compilers.DEFAULT_TOOLKIT", str(tmp_path / "nowhere"))
    monkeypatch.setitem(machine.environ, "PATH", str(tmp_path / "bin"))
    assert doctor.check_nvcc(machine).status is Status.MISSING
    program(toolkit / "bin/nvcc", "echo 'release 13.0, V13.0.88'")
    monkeypatch.setitem(machine.environ, "CUDA_HOME", str(toolkit))
    assert doctor.check_nvcc(machine).detail.startswith("13.0.88 (")


def test_names_are_unique_and_everything_missing_has_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "find_gpu", lambda environ: None)
    bare = InspectedMachine(
        environ={"PATH": ""},
        root=tmp_path,
        python=str(tmp_path / "none"),
        lock_folder=tmp_path,
        cache=tmp_path / "torch.json",
    )
    checks = run_checks(bare)
    assert len(by_name(checks)) == len(checks)
    missing = [check for check in checks if check.status is Status.MISSING]
    assert all(check.remedy for check in missing)
    assert {check.name for check in missing_essentials(checks)} == {"GPU", "ncu", "torch"}


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


def test_torch_is_imported_again_only_where_something_changed(machine):
    counter = machine.root / "imports"
    program(Path(machine.python), f"echo x >> {counter}; echo '2.13.0 13.0 True'")
    for _ in range(2):
        assert doctor.check_torch(machine, H200).detail == "2.13.0, CUDA 13.0"
    assert len(counter.read_text().split()) == 1
    assert doctor.check_torch(machine, replace(H200, driver="590.1")).status is Status.OK
    assert len(counter.read_text().split()) == 2
    assert str(machine.root) not in machine.cache.read_text()


def test_torch_that_does_not_see_the_gpu_is_asked_again(machine):
    program(Path(machine.python), "echo '2.13.0 13.0 False'")
    assert doctor.check_torch(machine, H200).status is Status.MISSING
    assert not machine.cache.exists()
    assert doctor.check_torch(machine).status is Status.MISSING  # no GPU: nothing to wait for
    assert machine.cache.exists()


def test_a_package_without_bytecode_is_warned_of(tmp_path, monkeypatch):
    (tmp_path / "uncompiled.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    check = doctor.check_bytecode("uncompiled")
    assert check.status is Status.WARNING
    assert check.remedy.endswith(f"compileall -q {tmp_path}")
    py_compile.compile(tmp_path / "uncompiled.py")
    assert doctor.check_bytecode("uncompiled").status is Status.OK


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
    assert [check.name for check in missing_essentials(checks)] == ["a"]


def importer(machine, body):
    """Replace the importer beside the machine's nsys."""
    return program(machine.root / "host-linux-x64/QdstrmImporter", body)


def nsys_of(machine):
    """The program that PATH names."""
    return machine.root / "bin/nsys"


def test_nsys_says_its_version_and_its_place(machine):
    check = doctor.check_nsys(machine)
    assert (check.status, check.essential) == (Status.OK, False)
    assert check.detail == f"2025.3.2.367 ({nsys_of(machine)})"


@pytest.mark.parametrize(
    "place",
    [
        "opt/nvidia/nsight-systems/2025.5.1/bin/nsys",
        "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys",
    ],
)
def test_nsys_is_found_in_the_usual_folders(machine, place):
    nsys_of(machine).unlink()
    path = program(machine.root / place, NSYS_VERSION)
    program(path.parent.parent / "host-linux-x64/QdstrmImporter")
    check = doctor.check_nsys(machine)
    assert check.status is Status.OK
    assert str(path) in check.detail


def test_without_nsys_the_remedy_says_where_to_get_it(machine):
    nsys_of(machine).unlink()
    check = doctor.check_nsys(machine)
    assert (check.status, check.essential) == (Status.WARNING, False)
    assert "not found" in check.detail
    assert "developer.nvidia.com/nsight-systems" in check.remedy


def test_an_nsys_that_is_only_a_script_of_the_toolkit(machine):
    program(nsys_of(machine), "echo 'Nsight Systems 2025.3.2 was not installed'; exit 1")
    check = doctor.check_nsys(machine)
    assert check.status is Status.WARNING
    assert "was not installed" in check.detail
    assert check.remedy


def test_an_nsys_that_is_too_old(machine):
    program(nsys_of(machine), "echo 'NVIDIA Nsight Systems version 2020.3.4.32-52657a0'")
    check = doctor.check_nsys(machine)
    assert check.status is Status.WARNING
    assert "2020.3.4.32 is too old" in check.detail


def test_an_nsys_that_cannot_be_run_at_all(machine):
    nsys_of(machine).write_text("#!/nowhere/sh\n")
    check = doctor.check_nsys(machine)
    assert check.status is Status.WARNING
    assert "cannot be run" in check.detail


def test_an_importer_without_a_library_names_its_package(machine):
    importer(
        machine,
        "echo 'QdstrmImporter: error while loading shared libraries: libdw.so.1: cannot open "
        "shared object file: No such file or directory' >&2; exit 127",
    )
    check = doctor.check_nsys(machine)
    assert check.status is Status.WARNING
    assert check.detail.startswith("2025.3.2.367 (")
    assert "libdw.so.1" in check.detail
    assert "apt-get install libdw1" in check.remedy


@pytest.mark.parametrize(
    ("body", "mode", "words"),
    [
        ("echo bad >&2; exit 127", 0o700, "importer does not start"),
        ("exec /nowhere/importer", 0o700, "importer does not start"),
        ("", 0o600, "QdstrmImporter cannot be run"),
    ],
)
def test_an_importer_that_does_not_start_or_may_not_be_run(machine, body, mode, words):
    importer(machine, body).chmod(mode)
    check = doctor.check_nsys(machine)
    assert check.status is Status.WARNING
    assert words in check.detail
    assert check.remedy


def test_an_importer_that_knows_no_version_option_is_no_fault(machine):
    importer(machine, "echo 'unrecognised option --version' >&2; exit 1")
    assert doctor.check_nsys(machine).status is Status.OK


def test_an_nsys_without_an_importer_cannot_make_reports(machine):
    importer(machine, "").unlink()
    check = doctor.check_nsys(machine)
    assert check.status is Status.WARNING
    assert "QdstrmImporter" in check.detail
    assert "PROFILER_NSYS" in check.remedy


def test_which_collectors_of_timelines_can_be_used(machine):
    def timelines():
        return by_name(run_checks(machine, H200))["timelines"]

    assert timelines().detail == "collectors: nsys, torch"
    importer(machine, "").unlink()
    assert timelines().detail == "collectors: torch"
    program(Path(machine.python), "exit 1")
    assert (timelines().status, timelines().essential) == (Status.WARNING, False)
    assert timelines().remedy


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (2144.0, Status.OK, "one of 2144 ns"),
        (EnvironmentUnusable("CUPTI may not\n read"), Status.WARNING, "may not read"),
    ],
)
def test_cupti_is_tried_where_nothing_measures(monkeypatch, machine, said, status, words):
    def duration(python):
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(doctor, "duration_by_cupti", duration)
    check = doctor.check_cupti(machine, H200, is_ready=True)
    assert check.status is status
    assert words in check.detail
    for gpu, is_ready in ((None, True), (H200, False)):
        assert "not tried" in doctor.check_cupti(machine, gpu, is_ready=is_ready).detail
    with gpu_lock("GPU-1", timeout_s=5, on_wait=print, folder=machine.lock_folder):
        assert "being measured" in doctor.check_cupti(machine, H200, is_ready=True).detail


def test_what_cupti_cannot_do_here_is_said_with_a_remedy():
    """No GPU: nvcc builds the library, and the runner's torch has no device for it."""
    with pytest.raises(EnvironmentUnusable, match=r"no CUDA device|cannot be loaded") as refused:
        duration_by_cupti()
    assert refused.value.remedy
