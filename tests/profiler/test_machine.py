"""What a live run needs of a machine: device, collectors, and the remedy where something lacks."""

import pytest
from run_folders import FAKE_NCU, SPEC

from profiler.collect import Tools
from profiler.collect.registry import COLLECTORS
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.machine import environment as inquiry
from profiler.machine import requirements as machine_module
from profiler.machine.environment import Gpu, architecture_of, inquire
from profiler.machine.requirements import Machine, find_machine
from profiler.model import Environment
from profiler.planning.spec import load_spec

H200 = Gpu(name="NVIDIA H200", uuid="GPU-1", compute_capability="9.0", driver="580.1")


@pytest.fixture
def find(tmp_path, monkeypatch):
    """Look for a machine with this GPU; ncu is the stand-in unless `ncu` says something else."""

    def search(
        collect="",
        *,
        explain=False,
        gpu=None,
        gpus=(),
        ncu=str(FAKE_NCU),
        workload="./workload.py",
        **environment,
    ):
        monkeypatch.setattr(inquiry, "find_gpu", lambda: gpu)
        monkeypatch.setattr(machine_module, "visible_gpus", lambda: gpus)
        monkeypatch.setenv("PROFILER_NCU", ncu)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        spec = SPEC.replace("explain: false", f"explain: {str(explain).lower()}")
        spec = spec.replace("workload: ./workload.py", f"workload: {workload}")
        (tmp_path / "spec.yaml").write_text(spec.replace("blocks: 2,", f"blocks: 2, {collect}"))
        (tmp_path / "workload.py").write_text("")
        loaded = load_spec(tmp_path / "spec.yaml")
        return find_machine(loaded.experiment, loaded.base)

    return search


@pytest.mark.parametrize(
    ("collect", "gpu", "device"),
    [
        ("collectors: ncu,", H200, "cuda"),
        ("collectors: timer,", H200, "cuda"),
        ("collectors: timer,", None, "cpu"),
        ("device: cpu, collectors: timer,", H200, "cpu"),
        ("device: cpu, collectors: timer,", None, "cpu"),
        ("device: cpu, collectors: ncu,", None, "cpu"),
        ("device: cpu, collectors: [ncu, timer],", H200, "cpu"),
        ("device: cuda, collectors: timer,", H200, "cuda"),
        ("device: cuda, collectors: [ncu, timer],", H200, "cuda"),
    ],
)
def test_device(find, collect, gpu, device):
    machine = find(collect, gpu=gpu)
    assert machine.device == device
    assert (machine.ncu is not None) == ("ncu" in collect)
    # A GPU that the run does not use is no part of what could change a number.
    assert machine.environment.gpu == (gpu.name if device == "cuda" else None)


@pytest.mark.parametrize(
    ("collector", "explain", "ncu", "explains"),
    [
        ("cupti", True, str(FAKE_NCU), True),
        ("cupti", True, "/nowhere/ncu", False),
        ("cupti", False, str(FAKE_NCU), False),
        ("timer", True, str(FAKE_NCU), False),
    ],
)
def test_what_cupti_counts_is_explained_by_an_ncu_that_is_there(
    find, collector, explain, ncu, explains
):
    machine = find(f"collectors: {collector},", explain=explain, gpu=H200, ncu=ncu)
    assert (machine.ncu is not None) == explains
    assert (machine.environment.ncu is not None) == explains
    assert machine.environment.clock_control is None  # CUPTI leaves the clocks alone


H100 = Gpu(name="NVIDIA H100", uuid="GPU-2", compute_capability="9.0", driver="580.1")


def test_the_gpu_that_is_asked_for_is_the_only_one_that_sessions_see(find):
    machine = find("device: 'cuda:1',", gpu=H200, gpus=(H200, H100))
    assert (machine.device, machine.environment.gpu) == ("cuda", "NVIDIA H100")
    assert machine.environment.gpu_uuid == "GPU-2"  # what lock and clock sampler go by
    assert machine.variables == {"CUDA_VISIBLE_DEVICES": "GPU-2"}
    assert find("device: cuda,", gpu=H200, gpus=(H200, H100)).variables == {}


def test_a_gpu_that_is_not_there_is_answered_with_those_that_are(find):
    with pytest.raises(UsageError, match="no cuda:2") as error:
        find("device: 'cuda:2',", gpu=H200, gpus=(H200, H100))
    assert "cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H100)" in error.value.remedy
    with pytest.raises(EnvironmentUnusable, match="No NVIDIA GPU"):
        find("device: 'cuda:0',", gpu=None)


def test_on_a_cpu_what_needs_a_gpu_is_refused_and_the_timer_named(find):
    with pytest.raises(UsageError, match="cupti measures on a GPU, not on the CPU") as refused:
        find("device: cpu, collectors: [timer, cupti],", gpu=H200)
    with pytest.raises(UsageError, match="sustained measures on a GPU, not on the CPU") as other:
        find("device: cpu, collectors: [timer, sustained],", gpu=H200)
    assert other.value.remedy.startswith("Leave out sustained of collect.collectors. ")
    with pytest.raises(EnvironmentUnusable, match="ncu") as missing:
        find("device: cpu, collectors: ncu,", gpu=None, ncu="/nowhere/ncu")
    assert refused.value.remedy.startswith("Leave out --fast, or cupti of collect.collectors. ")
    for error in (refused, missing):
        assert "What can run on the CPU is timed there with --timer" in error.value.remedy
    with pytest.raises(EnvironmentUnusable, match="ncu") as of_program:
        find("device: cpu,", gpu=None, ncu="/nowhere/ncu", workload='{command: "true"}')
    assert "--timer" not in of_program.value.remedy  # no timer measures a program


@pytest.mark.parametrize(
    "collect",
    [
        "collectors: ncu,",
        "collectors: [timer, ncu],",
        "device: cuda, collectors: timer,",
        "device: cuda, collectors: ncu,",
    ],
)
def test_without_a_gpu_what_needs_one_is_refused(find, collect):
    with pytest.raises(EnvironmentUnusable, match="No NVIDIA GPU") as error:
        find(collect, gpu=None)
    assert error.value.exit_code is ExitCode.ENVIRONMENT == 3
    assert "doctor" in error.value.remedy
    assert "--live" not in error.value.remedy, "it was not given"
    assert ("--timer" in error.value.remedy) == ("device: cuda" not in collect)


def test_without_ncu_only_what_needs_it_is_refused(find):
    with pytest.raises(EnvironmentUnusable, match="PROFILER_NCU") as error:
        find("collectors: ncu,", gpu=H200, ncu="/nowhere/ncu")
    assert "collect.collectors=timer" in error.value.remedy
    assert find("collectors: timer,", gpu=H200, ncu="/nowhere/ncu").ncu is None


CUDA = """\
name: x
workload: {source: x.cu, kernel: k, arguments: {y: {shape: 1, output: true}}, grid: 1, block: 1,
  reference: "1"}
variants: {list: [a]}
collect: {collectors: timer}
"""


def test_kernels_of_a_cuda_file_never_go_to_a_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(inquiry, "find_gpu", lambda: None)
    (tmp_path / "spec.yaml").write_text(CUDA)
    loaded = load_spec(tmp_path / "spec.yaml")
    with pytest.raises(EnvironmentUnusable, match="No NVIDIA GPU") as error:
        find_machine(loaded.experiment, loaded.base)
    assert "--timer" not in error.value.remedy


def test_an_ncu_that_is_too_old_is_refused(find):
    with pytest.raises(EnvironmentUnusable, match="2022") as error:
        find("collectors: ncu,", gpu=H200, FAKE_NCU_MODE="old_version")
    assert error.value.remedy


def test_settings_of_the_tool_belong_to_the_environment(find):
    machine = find("cache_control: none, clock_control: base,", gpu=H200)
    environment = machine.environment
    assert (environment.ncu, environment.gpu_uuid) == ("2025.3.1.0", "GPU-1")
    assert (environment.cache_control, environment.clock_control) == ("none", "base")
    assert machine.ncu == FAKE_NCU


def test_a_timer_controls_neither_clocks_nor_caches(find):
    machine = find("collectors: timer,", gpu=H200)
    environment = machine.environment
    assert (environment.cache_control, environment.clock_control) == (None, None)
    assert environment.ncu is None
    assert machine.ncu is None
    with pytest.raises(EnvironmentUnusable, match="without ncu"):
        COLLECTORS["ncu"].create(Tools(ncu=machine.ncu))


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [("9.0", "sm_90"), ("8.6", "sm_86"), ("12.0", "sm_120"), (None, None)],
)
def test_architecture_of_a_gpu(capability, architecture):
    environment = Environment(compute_capability=capability)
    assert architecture_of(environment) == architecture
    machine = Machine(environment, "cuda", None)
    assert machine.architecture("sm_75") == "sm_75"
    assert machine.architecture("auto") == (architecture or "sm_80")


def test_without_torch_a_workload_in_python_cannot_be_measured(monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text("")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: a\nworkload: ./mine.py\nvariants: {list: [b]}\n"
        "collect: {collectors: [timer], device: cpu}\n"
    )
    experiment = load_spec(spec).experiment
    assert find_machine(experiment, tmp_path).device == "cpu"
    monkeypatch.setattr("profiler.machine.requirements.find_spec", lambda name: None)
    with pytest.raises(EnvironmentUnusable, match="torch is not installed"):
        find_machine(experiment, tmp_path)


def test_what_was_asked_ahead_is_not_asked_again(tmp_path, monkeypatch):
    asked = []

    def gpu():
        asked.append("gpu")
        return H200

    monkeypatch.setattr(inquiry, "find_gpu", gpu)
    monkeypatch.setattr(inquiry, "find_ncu", lambda: asked.append("ncu") or FAKE_NCU)
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "workload.py").write_text("")
    ahead = inquire(tmp_path)
    loaded = load_spec(tmp_path / "spec.yaml")
    machine = find_machine(loaded.experiment, loaded.base, inquiry=ahead)
    assert (machine.environment.gpu, machine.ncu) == (H200.name, FAKE_NCU)
    assert sorted(asked) == ["gpu", "ncu"]


def test_what_an_experiment_does_not_need_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(inquiry, "find_gpu", lambda: H200)
    monkeypatch.setenv("PROFILER_NCU", "/nowhere/ncu")
    answers = inquire(tmp_path)
    assert answers.gpu.result() is H200
    with pytest.raises(EnvironmentUnusable, match="PROFILER_NCU"):
        answers.ncu.result()
