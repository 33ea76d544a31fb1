"""What inductor's autotuner tried is asked of its own objects; here they are made by hand."""

import math
import sys
from functools import cache
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("torch")

from profiler.kernels import autotuned


@cache
def inductor():
    """What inductor's modules define; each worker would import them for 1.6 s as it collects."""
    from torch._inductor import select_algorithm
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    return SimpleNamespace(
        select_algorithm=select_algorithm,
        PyCodeCache=PyCodeCache,
        CachingAutotuner=CachingAutotuner,
    )


def launcher(block, warps=4, registers=16):
    config = SimpleNamespace(kwargs={"XBLOCK": block}, num_warps=warps, num_stages=1)
    return SimpleNamespace(config=config, n_regs=registers, n_spills=0, shared=64)


def autotuner(name, *launchers):
    made = inductor().CachingAutotuner.__new__(inductor().CachingAutotuner)
    made.inductor_meta = {"kernel_name": name}
    made.launchers = list(launchers)
    return made


@pytest.fixture
def load(monkeypatch):
    """Load a module of generated code, as inductor does."""
    monkeypatch.setattr(inductor().PyCodeCache, "modules", [])

    def load(*kernels):
        module = ModuleType("generated")
        for kernel in kernels:
            setattr(module, kernel.inductor_meta["kernel_name"], kernel)
        inductor().PyCodeCache.modules.append(module)

    return load


@pytest.fixture
def timed(monkeypatch):
    """Have inductor's benchmark give these times, in milliseconds, in the order of launchers."""

    def timed(*times):
        def benchmark(self):
            return dict(zip(self.launchers, times, strict=True))

        monkeypatch.setattr(inductor().CachingAutotuner, "benchmark_all_configs", benchmark)

    return timed


def make_hashable(*launchers):
    """Launchers are keys of a mapping in torch; namespaces have no hash."""
    return [type("Launcher", (), vars(each))() for each in launchers]


def tune(kernel):
    timings = kernel.benchmark_all_configs()
    kernel.launchers = [min(timings, key=timings.get)]


def test_every_configuration_is_told_with_its_time_and_the_winner(load, timed):
    timed(0.02, 0.01, math.inf)
    kernel = autotuner("triton_red_0", *make_hashable(launcher(1), launcher(2), launcher(4, 8)))
    with autotuned.watch() as found:
        load(kernel)
        tune(kernel)
    assert [row["config"]["XBLOCK"] for row in found] == [1, 2, 4]
    assert [row["time_ns"] for row in found] == [20_000.0, 10_000.0, None]
    assert [row["best"] for row in found] == [False, True, False]
    assert found[2]["config"] == {"XBLOCK": 4, "num_warps": 8, "num_stages": 1}
    assert {row["operation"] for row in found} == {"triton_red_0"}
    assert [found[0][name] for name in ("registers", "spills", "shared_bytes")] == [16, 0, 64]


def tuned_in_a_process(load, times, cache, blocks=(2048, 4096)):
    """Rows of a process that times two configurations of one kernel, whose file is in a cache."""
    kernel = autotuner("triton_red_0", *make_hashable(*map(launcher, blocks)))
    kernel.filename = str(cache / "ab/cabc.py")
    (cache / "ab").mkdir(parents=True, exist_ok=True)
    times()
    with autotuned.watch() as found:
        load(kernel)
        tune(kernel)
    return {row["config"]["XBLOCK"]: (row["best"], row["time_ns"]) for row in found}


def test_what_was_chosen_stays_chosen_in_the_cache_of_a_run(load, timed, tmp_path, monkeypatch):
    """The second process finds the other configuration faster, by chance."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "run"))
    first = tuned_in_a_process(load, lambda: timed(0.03, 0.02), tmp_path / "run")
    again = tuned_in_a_process(load, lambda: timed(0.02, 0.03), tmp_path / "run")
    assert first == {2048: (False, 30_000.0), 4096: (True, 20_000.0)}
    assert again == {2048: (False, 20_000.0), 4096: (True, 30_000.0)}
    other = tuned_in_a_process(load, lambda: timed(0.02, 0.03), tmp_path / "run", (1024, 512))
    assert other == {1024: (True, 20_000.0), 512: (False, 30_000.0)}, "what was chosen is not there"


@pytest.mark.parametrize("variable", ["", "elsewhere"])
def test_nothing_is_kept_in_a_cache_that_is_not_of_the_run(
    load, timed, tmp_path, monkeypatch, variable
):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", variable and str(tmp_path / variable))
    tuned_in_a_process(load, lambda: timed(0.03, 0.02), tmp_path / "run")
    again = tuned_in_a_process(load, lambda: timed(0.02, 0.03), tmp_path / "run")
    assert again == {2048: (True, 20_000.0), 4096: (False, 30_000.0)}
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("text", ["", "[]", '{"XBLOCK": 4096}'])
def test_a_damaged_choice_is_none(load, timed, tmp_path, monkeypatch, text):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab/cabc.py.chosen.json").write_text(text)
    rows = tuned_in_a_process(load, lambda: timed(0.02, 0.03), tmp_path)
    assert rows == {2048: (True, 20_000.0), 4096: (False, 30_000.0)}


def test_a_kernel_with_one_configuration_is_told_without_a_time(load):
    with autotuned.watch() as found:
        load(autotuner("triton_poi_0", launcher(1024, registers=-1)))
    (row,) = found
    assert (row["best"], row["time_ns"], row["registers"]) == (True, None, None)


def test_a_kernel_that_was_never_launched_is_not_told(load):
    with autotuned.watch() as found:
        load(autotuner("triton_poi_0", launcher(1), launcher(2)))
    assert found == []


def test_kernels_of_earlier_cells_are_not_told_again(load):
    load(autotuner("triton_poi_0", launcher(1)))
    with autotuned.watch() as found:
        load(autotuner("triton_poi_1", launcher(2)))
    assert [row["operation"] for row in found] == ["triton_poi_1"]


def test_a_kernel_that_two_modules_name_is_told_once(load):
    kernel = autotuner("triton_poi_0", launcher(1))
    with autotuned.watch() as found:
        load(kernel)
        load(kernel)
    assert len(found) == 1


def _fail(before):
    assert inductor().CachingAutotuner.benchmark_all_configs is not before
    raise RuntimeError("does not compile")


def test_torch_is_as_before_afterwards(load, timed):
    timed(0.02)
    before = inductor().CachingAutotuner.benchmark_all_configs
    with pytest.raises(RuntimeError, match="does not compile"), autotuned.watch():
        _fail(before)
    assert inductor().CachingAutotuner.benchmark_all_configs is before


def test_another_torch_tells_nothing_and_breaks_nothing(load, monkeypatch):
    monkeypatch.delattr(inductor().CachingAutotuner, "benchmark_all_configs")
    kernel = autotuner("triton_poi_0", launcher(1))
    del kernel.inductor_meta
    with autotuned.watch() as found:
        inductor().PyCodeCache.modules.append(SimpleNamespace(kernel=kernel))
    assert found == []


def test_choices_between_templates_and_libraries_are_heard(load, monkeypatch):
    heard = []
    monkeypatch.setattr(inductor().select_algorithm, "add_feedback_saver", heard.append)
    autotuned._hear_choices.cache_clear()
    nodes = [SimpleNamespace(get_size=lambda: [64, 32]), SimpleNamespace(get_size=lambda: [32, 8])]
    template, library = make_hashable(
        SimpleNamespace(name="triton_mm_1", description="BLOCK_M=64, num_warps=4"),
        SimpleNamespace(name="mm"),
    )
    with autotuned.watch(choices=True) as found:
        heard[0]({template: 0.03, library: 0.01}, "mm", nodes, [], None, {})
    autotuned._hear_choices.cache_clear()
    assert [row["choice"] for row in found] == ["triton_mm_1", "mm"]
    assert [row["best"] for row in found] == [False, True]
    assert found[0]["operation"] == "mm(64x32, 32x8)"
    assert found[0]["description"] == "BLOCK_M=64, num_warps=4"
    with autotuned.watch() as later:
        pass
    assert later == [], "what one cell heard is not the next one's"


# ---- Triton's own autotuner ----------------------------------------------------------------------


class TritonConfig(SimpleNamespace):
    __hash__ = object.__hash__


class Autotuner:
    """As `triton.runtime.autotuner.Autotuner` of Triton 3 is, as far as it is asked."""

    def __init__(self, times):
        self.configs = {
            TritonConfig(kwargs={"BLOCK": block}, num_warps=4, num_stages=2): time
            for block, time in times.items()
        }
        self.fn = self.base_fn = SimpleNamespace(__name__="softmax_kernel")
        self.tuned = False

    def run(self):
        if not self.tuned:
            self.configs_timings = {config: [t, t, t] for config, t in self.configs.items()}
            self.tuned = True
        self.best_config = min(self.configs, key=self.configs.get)
        return "launched"


@pytest.fixture
def triton(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "triton.runtime.autotuner", SimpleNamespace(Autotuner=Autotuner)
    )


@pytest.mark.usefixtures("triton")
def test_what_triton_tried_is_told_once_and_afterwards_what_runs():
    kernel, run = Autotuner({64: 0.03, 128: 0.02, 256: math.inf}), Autotuner.run
    with autotuned.watch_launch() as found:
        assert kernel.run() == kernel.run() == "launched"
    assert [(row["config"]["BLOCK"], row["time_ns"], row["best"]) for row in found] == [
        (64, 30_000, False),
        (128, 20_000, True),
        (256, None, False),
    ]
    assert {row["operation"] for row in found} == {"softmax_kernel"}
    with autotuned.watch_launch() as again:
        kernel.run()
    (row,) = again
    assert row["config"] == {"BLOCK": 128, "num_warps": 4, "num_stages": 2}
    assert (row["time_ns"], row["best"]) == (None, True)
    assert Autotuner.run is run


@pytest.mark.usefixtures("triton")
def test_a_launch_of_a_function_carries_what_was_tried(monkeypatch):
    import torch

    from profiler.runner.experiment import Experiment
    from profiler.runner.functions import FunctionWorkload

    kernel, experiment = Autotuner({64: 0.03, 128: 0.02}), Experiment("e")
    experiment.inputs(lambda: torch.ones(2))

    @experiment.variant(name="f")
    def f(x):
        kernel.run()
        return x * 2

    workload = FunctionWorkload(experiment)
    inputs = workload.make_inputs({}, torch.device("cpu"), 1)
    launch = workload.prepare({"function": "f"}, {}, inputs, None)
    assert not launch.tuned
    launch()
    assert [row["config"]["BLOCK"] for row in launch.tuned if row["best"]] == [128]
    launch()
    assert len(launch.tuned) == 2
