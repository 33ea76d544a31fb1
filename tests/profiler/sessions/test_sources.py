"""The files behind a cell."""

from pathlib import Path

import pytest
from run_folders import SPEC

from profiler.planning.plan import make_plan
from profiler.planning.space import load_space
from profiler.planning.spec import ModuleWorkload, load_spec
from profiler.sessions.recorded_sources import recorded_sources
from profiler.sessions.sources import (
    _MEASURING,
    _Entry,
    _with_imports,
    hash_files,
    library_versions,
    modules_elsewhere,
    own_files,
    source_files,
)

ROOT = Path(__file__).resolve().parents[3]


def runner_files():
    """Files of the runner that the key of a cell without a candidate has."""
    return [file.resolve() for files in _MEASURING for file in (ROOT / "profiler").glob(files)]


def test_all_that_the_runner_imports_is_in_the_key_of_a_cell():
    main = ROOT / "profiler" / "runner" / "__main__.py"
    imported = {file.resolve() for file in _with_imports(_Entry(main, (ROOT,), "profiler"))}
    packages = {ROOT / "profiler" / name for name in ("__init__.py", "kernels/__init__.py")}
    referee = {file for file in imported if file.parent == ROOT / "runner" / "referee"}
    assert len(referee) > 3  # in the key where a candidate is judged
    assert imported - packages - referee <= {*runner_files()}


@pytest.fixture
def sources(tmp_path):
    """Names of the source files of a workload that consists of these files; runner left out."""

    def find(**files):
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (tmp_path / "spec.yaml").write_text(SPEC)
        loaded = load_spec(tmp_path / "spec.yaml")
        plan = make_plan(loaded, load_space(loaded.experiment.workload, loaded.base))
        found = source_files(loaded.experiment, loaded.base, plan.cells[0])
        own = [file for file in found if file.is_relative_to(tmp_path)]
        assert {*found} - {*own} == {*runner_files()}
        return sorted(file.relative_to(tmp_path).as_posix() for file in own)

    return find


def test_imports_are_followed_and_may_go_round_in_circles(sources, tmp_path, monkeypatch):
    monkeypatch.setattr("profiler.sessions.sources.package_version", {"triton": "3.5"}.get)
    found = sources(
        workload="def prepare():\n    import one\n",
        one="import torch, two as three\n",
        two="import one, workload\n",
        other="import one\n",
    )
    assert found == ["one.py", "two.py", "workload.py"]
    loaded = load_spec(tmp_path / "spec.yaml")
    assert modules_elsewhere(loaded.experiment, loaded.base) == {"torch"}
    assert library_versions(loaded.experiment, loaded.base) == {"triton": "3.5"}, "torch compiles"


def test_packages_and_relative_imports(sources):
    found = sources(
        workload="from pack.inner import thing\n",
        pack__in____init__="",
        pack__in__inner="from . import beside\nfrom .other import x\nfrom .... import far\n",
        pack__in__beside="",
        pack__in__other="",
        pack__in__unused="",
    )
    assert found == [
        *("pack/__init__.py", "pack/beside.py", "pack/inner.py", "pack/other.py"),
        "workload.py",
    ]


def test_a_file_that_is_no_python_is_left_to_the_runner(sources):
    assert sources(workload="import broken\n", broken="def (:\n") == ["broken.py", "workload.py"]


def test_a_file_in_a_package_imports_from_packages_beside_its_own_and_from_its_folder(tmp_path):
    texts = {
        "mine/__init__.py": "",
        "mine/workload.py": "from other.inputs import make_inputs\nfrom . import near\n",
        "mine/near.py": "import beside\n",
        "mine/beside.py": "",
        "mine/unused.py": "",
        "other/__init__.py": "",
        "other/inputs.py": "from mine.unread import x\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    workload = ModuleWorkload(module="./mine/workload.py")
    assert set(own_files(workload, tmp_path, ())) == texts.keys() - {"mine/unused.py"}


def test_a_workload_of_this_repository_does_not_bring_in_torch():
    loaded = load_spec(ROOT / "experiments/softmax.yaml")
    plan = make_plan(loaded, load_space(loaded.experiment.workload, loaded.base))
    found = {
        file.relative_to(ROOT).as_posix()
        for file in source_files(loaded.experiment, loaded.base, plan.cells[0])
    }
    of_runner = {file.relative_to(ROOT).as_posix() for file in runner_files()}
    space_files = {f"kernels/softmax/{name}.py" for name in ("__init__", "workload", "space")}
    assert found - of_runner == space_files
    assert {"runner/session.py", "runner/timing.py", "runner/visits/kinds.py"} <= found
    assert {"runner/cupti/range_profiler.cpp", "runner/capture/replay.py"} <= found


def test_hashes_go_by_name_and_content_not_by_folder_or_order(tmp_path):
    def write(folder, **texts):
        (tmp_path / folder).mkdir()
        for name, text in texts.items():
            (tmp_path / folder / name).write_text(text)
        return [tmp_path / folder / name for name in texts]

    first = write("z", a="1", b="2")
    assert hash_files(first) == hash_files(write("a", b="2", a="1")) == hash_files(first * 2)
    others = [write("c", a="2", b="1"), write("d", a="1", c="2"), write("e", a="1"), write("f")]
    assert len({hash_files(files) for files in [first, *others]}) == 5


COMMANDS = """\
name: programs
workload: {command: "./{program} 20"}
variants: {list: [{name: one, params: {program: a.sh}}, {name: two, params: {program: b.sh}}]}
"""


def test_a_variant_of_an_external_command_is_made_of_its_program(tmp_path):
    def found():
        loaded = load_spec(tmp_path / "spec.yaml")
        plan = make_plan(loaded, load_space(loaded.experiment.workload, loaded.base))
        return recorded_sources(loaded.experiment, loaded.base, plan.cells)

    (tmp_path / "spec.yaml").write_text(COMMANDS)
    for name in ("a.sh", "b.sh"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name).chmod(0o755)
    before, texts = found()
    assert list(before.files) == ["a.sh", "b.sh"]
    assert texts["b.sh"] == "#!/bin/sh\necho b.sh\n"
    (tmp_path / "b.sh").write_text("#!/bin/sh\n")
    after, _ = found()
    assert before.variants["one"] == after.variants["one"]
    assert before.variants["two"] != after.variants["two"]
    (tmp_path / "a.sh").write_bytes(b"\x7fELF\0")
    assert list(found()[1]) == ["b.sh"], "a program is no text"
