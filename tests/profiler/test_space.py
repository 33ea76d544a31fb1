"""Loading a workload's torch-free half, and what is said when it misbehaves."""

import subprocess
import sys
from pathlib import Path

import pytest

from profiler.errors import SpecError
from profiler.kernels.recipe import Recipe
from profiler.planning.space import Space, load_space, space_of
from profiler.planning.spec import CommandWorkload, ModuleWorkload, load_spec

SPECS = Path(__file__).parent / "specs"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def space_from(tmp_path):
    """A space whose file has this text."""

    def load_text(text):
        (tmp_path / "workload.py").write_text("raise RuntimeError('imported')\n")
        (tmp_path / "space.py").write_text(text)
        return load_space(ModuleWorkload(module="./workload.py", space="./space.py"), tmp_path)

    return load_text


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package `shop` with two workloads in it."""
    for name in ("shop/nut", "shop/bolt", "shop/empty"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "shop/__init__.py").write_text("")
    for name in ("nut", "bolt"):
        (tmp_path / f"shop/{name}/workload.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "shop/nut/space.py").write_text("def variant_name(params):\n    return 'nut'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def test_every_function_has_a_default():
    space = load_space(ModuleWorkload(module="./workload.py"), SPECS)
    assert space == Space()
    assert space.variant_name({"a": 1}) is None
    assert space.check_variant({}) is None
    assert space.check_problem({}) is None
    assert space.check_cell({}, {}) is None
    assert space.check_kernels({}, {}, ["kernel"]) is None
    assert space.variant_sets() == {}
    assert space.recipe({}) is None


def test_a_space_may_know_the_kernels_of_its_variants(space_from):
    text = """
def check_kernels(variant, problem, kernels):
    kernels.remove("mine")
    return f"{variant['a']} on {problem['b']} ran {kernels}" if kernels else None
"""
    space = space_from(text)
    names = ["mine", "other"]
    assert space.check_kernels({"a": 1}, {"b": 2}, names) == "1 on 2 ran ['other']"
    assert space.check_kernels({"a": 1}, {"b": 2}, ("mine",)) is None
    assert names == ["mine", "other"], "it was given a copy"
    with pytest.raises(SpecError, match="check_kernels"):
        space.check_kernels({}, {}, [])


def test_a_command_has_no_space():
    assert load_space(CommandWorkload(command="./a"), SPECS) == Space()


def test_a_users_own_file():
    space = load_space(ModuleWorkload(module="./workload.py", space="./space.py"), SPECS)
    assert space.variant_name({"algorithm": "online", "block": 64}) == "on-64"
    assert space.check_variant({"block": 384}) == "not a power of two"
    assert space.check_cell({"rows": 2}, {"columns": 16384}) == "two long rows do not fit"
    assert space.variant_sets()["wide"] == (
        {"algorithm": "wide", "block": 256},
        {"algorithm": "wide", "block": 384},
    )


def test_a_package_brings_its_own_space(package):
    assert load_space(ModuleWorkload(module="shop.nut"), package).variant_name({}) == "nut"
    assert load_space(ModuleWorkload(module="shop.bolt"), package) == Space()


def test_a_space_of_another_package(package):
    workload = ModuleWorkload(module="shop.bolt", space="shop.nut.space")
    assert load_space(workload, package).variant_name({}) == "nut"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("shop.nutt", "workload 'shop.nutt': there is no such Python package; did you mean"),
        ("absent.thing", "workload 'absent.thing': there is no such Python package"),
        ("shop.empty", "workload 'shop.empty': this package has no module 'workload'"),
        ("./absent.py", "there is no such file"),
    ],
)
def test_a_workload_that_does_not_exist(package, module, words):
    with pytest.raises(SpecError) as caught:
        load_space(ModuleWorkload(module=module), package)
    assert words in caught.value.message


def test_the_old_name_of_a_workload_of_this_repository_says_the_new_one():
    with pytest.raises(SpecError, match="has no studies any more") as caught:
        load_space(ModuleWorkload(module="profiler.kernels.waves"), Path())
    assert caught.value.remedy.endswith("from experiments/: ../kernels/waves/workload.py")


def write_shop(folder, word):
    """Two packages beside each other; the space of one imports from both."""
    for name in ("nut", "thread"):
        (folder / name).mkdir(parents=True)
    (folder / "nut/__init__.py").write_text("")
    (folder / "thread/pitch.py").write_text(f"PITCH = {word!r}\n")
    (folder / "nut/sizes.py").write_text("from thread.pitch import PITCH\n")
    (folder / "nut/workload.py").write_text("raise RuntimeError('imported')\n")
    (folder / "nut/space.py").write_text(
        "import sizes\nfrom .sizes import PITCH\n"
        "def variant_name(params):\n    return PITCH + sizes.PITCH\n"
    )


def test_a_file_in_a_package_has_the_space_beside_it_and_imports_from_packages_beside_its_own(
    tmp_path,
):
    before = list(sys.path), list(sys.meta_path), set(sys.modules)
    workload = ModuleWorkload(module="../nut/workload.py")
    for word in ("fine", "coarse"):
        write_shop(tmp_path / word, word)
        base = tmp_path / word / "experiments"
        base.mkdir()
        assert load_space(workload, base).variant_name({}) == word * 2
    pitch = tmp_path / "coarse/thread/pitch.py"
    pitch.write_text(pitch.read_text().replace("coarse", "coarser"))
    assert load_space(workload, base).variant_name({}) == "coarsercoarser"
    left = {name for name in set(sys.modules) - before[2] if "_profiler_space" not in name}
    assert (sys.path, sys.meta_path, left) == (*before[:2], set())
    (tmp_path / "coarse/nut/__init__.py").unlink()
    assert load_space(workload, base) == Space()


def test_a_package_that_fails_to_import(package):
    (package / "shop/nut/__init__.py").write_text("1 / 0\n")
    with pytest.raises(
        SpecError, match=r"'shop\.nut\.workload': its package fails to import: Zero"
    ):
        load_space(ModuleWorkload(module="shop.nut"), package)


def test_a_space_in_a_package_that_fails_to_import(package):
    (package / "shop/nut/space.py").write_text("import absent_module\n")
    with pytest.raises(SpecError, match=r"space 'shop\.nut\.space': ModuleNotFoundError: .*absent"):
        load_space(ModuleWorkload(module="shop.nut"), package)


def test_the_complaint_names_the_line_of_the_spec(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nworkload: ./absent.py\nvariants: {list: [a]}\n")
    with pytest.raises(
        SpecError, match=r"x\.yaml:2: workload: workload '.*absent\.py': there is no"
    ):
        space_of(load_spec(path))


def test_two_files_of_one_name_do_not_meet(tmp_path):
    spaces = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "workload.py").write_text("")
        (folder / "space.py").write_text(f"def variant_name(params):\n    return {name!r}\n")
        workload = ModuleWorkload(module="./workload.py", space="./space.py")
        spaces.append(load_space(workload, folder))
    assert [space.variant_name({}) for space in spaces] == ["one", "two"]


def test_a_changed_file_is_read_again(space_from):
    assert space_from("def variant_name(params): return 'before'").variant_name({}) == "before"
    assert space_from("def variant_name(params): return 'after!'").variant_name({}) == "after!"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n1 / 0\n", "space.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "space.py:1: SyntaxError: invalid syntax"),
        ("import absent_module\n", "space.py:1: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)\n", "space.py:2: SystemExit: 3"),
        ("variant_name = 'text'\n", "space.py: variant_name must be a function"),
    ],
)
def test_a_file_that_cannot_be_loaded(space_from, text, words):
    with pytest.raises(SpecError) as caught:
        space_from(text)
    assert words in caught.value.message


def test_a_module_beside_a_space_that_hides_an_installed_one_is_named(space_from, tmp_path):
    (tmp_path / "mpmath.py").write_text("")
    with pytest.raises(SpecError, match=r"(?s)space.py:1: .*mpmath.py hides the installed mpm"):
        space_from("from mpmath import nothing_of_this_name")
    space = space_from("import mpmath\ndef variant_name(params):\n    return mpmath.nothing\n")
    with pytest.raises(SpecError, match=r"(?s)variant_name.*mpmath.py hides the installed mpm"):
        space.variant_name({})


def test_an_error_of_a_file_that_a_space_imports_has_the_line_of_the_space(space_from, tmp_path):
    (tmp_path / "neighbour.py").write_text("\n\ndef f(:\n")
    with pytest.raises(SpecError, match=r"space.py:1: SyntaxError: .*neighbour.py, line 3"):
        space_from("import neighbour")


def test_a_file_with_dataclasses(space_from):
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass A:\n    x: int = 1\n"
        "def variant_name(params): return str(A().x)\n"
    )
    assert space_from(text).variant_name({}) == "1"


@pytest.mark.parametrize(
    ("text", "call", "words"),
    [
        (
            "def variant_name(params): return 3",
            lambda space: space.variant_name({}),
            "variant_name must return a text that is not empty, or None, not 3",
        ),
        (
            "def check_variant(params): return False",
            lambda space: space.check_variant({}),
            "check_variant must return a text that is not empty, or None, not False",
        ),
        (
            "def check_problem(params): return ''",
            lambda space: space.check_problem({}),
            "check_problem must return a text that is not empty, or None, not ''",
        ),
        (
            "def check_cell(params): return None",
            lambda space: space.check_cell({"a": 1}, {"b": 2}),
            "check_cell({'a': 1}, {'b': 2}): TypeError: ",
        ),
        (
            "def check_variant(params): return params['block']",
            lambda space: space.check_variant({"a": 1}),
            "check_variant({'a': 1}): KeyError: 'block'",
        ),
        (
            "def variant_sets(): return [1]",
            lambda space: space.variant_sets(),
            "variant_sets must return a mapping of names to lists, not [1]",
        ),
        (
            "def variant_sets(): return {'a': [1]}",
            lambda space: space.variant_sets(),
            "variant_sets must return a list of mappings for 'a', not [1]",
        ),
        (
            "def recipe(params): return 'a.cu'",
            lambda space: space.recipe({}),
            "recipe must return a profiler.kernels.recipe.Recipe or None, not 'a.cu'",
        ),
    ],
)
def test_functions_that_misbehave(space_from, text, call, words):
    with pytest.raises(SpecError) as caught:
        call(space_from(text))
    assert "space.py: " in caught.value.message
    assert words in caught.value.message


def test_functions_cannot_change_the_parameters(space_from):
    params = {"a": 1}
    assert space_from("def check_variant(params): params.clear()").check_variant(params) is None
    assert params == {"a": 1}


def test_a_recipe(space_from):
    text = (
        "from pathlib import Path\nfrom profiler.kernels.recipe import Recipe\n"
        "def recipe(params): return Recipe((Path('/a.cu'),), {'N': params['n']})\n"
    )
    assert space_from(text).recipe({"n": 4}) == Recipe((Path("/a.cu"),), {"N": 4})


def _in_a_fresh_process(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_planning_imports_no_torch():
    """Nor does the space of any study."""
    code = (
        "import sys\nfrom importlib import import_module\nfrom pathlib import Path\n"
        "from profiler.planning.plan import make_plan\n"
        "from profiler.planning.space import space_of\n"
        "from profiler.planning.spec import load_spec\n"
        "loaded = load_spec(Path('experiments/softmax.yaml'))\n"
        "assert make_plan(loaded, space_of(loaded)).cells\n"
        "sys.path.append('kernels')\n"
        "studies = [file.parent.name for file in Path('kernels').glob('*/space.py')]\n"
        "assert len(studies) >= 7\n"
        "for study in studies: import_module(f'{study}.space')\n"
        "assert 'torch' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    done = _in_a_fresh_process(code)
    assert done.returncode == 0, done.stderr


def test_a_space_that_imports_torch_is_refused(tmp_path):
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "torch.py").write_text("")  # stands for the real one, which takes seconds
    (tmp_path / "workload.py").write_text("")
    (tmp_path / "space.py").write_text("import torch\n")
    code = (
        f"import sys\nsys.path.insert(0, {str(installed)!r})\nfrom pathlib import Path\n"
        "from profiler.planning.space import load_space\n"
        "from profiler.planning.spec import ModuleWorkload\n"
        "workload = ModuleWorkload(module='./workload.py', space='./space.py')\n"
        f"load_space(workload, Path({str(tmp_path)!r}))\n"
    )
    done = _in_a_fresh_process(code)
    assert "space.py: imports torch" in done.stderr
    assert "Remedy:" in done.stderr
