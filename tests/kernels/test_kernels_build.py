import shutil
from dataclasses import replace

import pytest

from flash_attention import space as mma_space
from flash_attention_hopper import space as hopper_space
from profiler.kernels.build import (
    INCLUDE_FOLDER,
    TIMELINE_HEADER,
    Compiler,
    depfile_paths,
    plan_library,
    watched_files,
    write_ninja,
)
from profiler.kernels.recipe import Recipe, with_stamps


@pytest.fixture
def compiler(tmp_path):
    return Compiler(tmp_path / "bin" / "nvcc", "nvcc release 13.0")


@pytest.fixture
def recipe(tmp_path):
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "scale.cu").write_text('#include "factor.cuh"\n')
    (folder / "factor.cuh").write_text("#define FACTOR 2\n")
    return Recipe((folder / "scale.cu",), {"WIDTH": 4, "BLOCK": 128})


def test_another_checkout_has_the_same_hash(recipe, compiler, tmp_path):
    elsewhere = tmp_path / "other place" / "src"
    shutil.copytree(recipe.sources[0].parent, elsewhere)
    moved = replace(recipe, sources=(elsewhere / "scale.cu",))
    first = plan_library(recipe, "sm_90", compiler)
    second = plan_library(moved, "sm_90", Compiler(tmp_path / "nvcc", compiler.version))
    assert first.recipe_hash == second.recipe_hash
    assert first.command == second.command
    assert str(tmp_path) not in first.command


def test_paths_in_flags_do_not_enter_the_hash(recipe, compiler, tmp_path):
    def planned(root):
        include = root / "include"
        include.mkdir(parents=True)
        shutil.copytree(recipe.sources[0].parent, root / "src")
        flags = (f"-I{include}", "-I", str(include), "-I../include", "-L../lib")
        moved = replace(recipe, sources=(root / "src" / "scale.cu",), flags=flags)
        return plan_library(moved, "sm_90", compiler)

    first, second = planned(tmp_path / "a"), planned(tmp_path / "b")
    assert first.recipe_hash == second.recipe_hash
    assert "-I../include -I ../include -I../include" in first.command
    assert f"-I{tmp_path / 'a' / 'include'}" in first.compilations[0].command
    # The compiler runs in the build folder: relative folders are those beside the source.
    assert f"-I{tmp_path / 'a/src/../include'}" in first.compilations[0].command
    assert f"-L{tmp_path / 'a/src/../lib'}" in first.link_command


def test_everything_that_could_change_the_code_changes_the_hash(recipe, compiler):
    hashes = {plan_library(recipe, "sm_90", compiler).recipe_hash}
    others = [
        plan_library(recipe, "sm_80", compiler),
        plan_library(recipe, "sm_90", replace(compiler, version="nvcc release 13.1")),
        plan_library(replace(recipe, defines={"WIDTH": 8, "BLOCK": 128}), "sm_90", compiler),
        plan_library(replace(recipe, flags=("--use_fast_math",)), "sm_90", compiler),
    ]
    (recipe.sources[0].parent / "factor.cuh").write_text("#define FACTOR 3\n")
    others.append(plan_library(recipe, "sm_90", compiler))
    recipe.sources[0].write_text('#include "factor.cuh"\n// changed\n')
    others.append(plan_library(recipe, "sm_90", compiler))
    hashes.update(library.recipe_hash for library in others)
    assert len(hashes) == len(others) + 1


def test_a_header_elsewhere_that_is_included_by_its_path_is_part_of_the_hash(compiler, tmp_path):
    """Through another header, too; one that is found by -I is ninja's affair."""
    files = {
        "kernel/scale.cu": '#include "factor.cuh"\n#include "absent.cuh"\n#include <outside.cuh>\n',
        "kernel/factor.cuh": '  #  include "../shared/factors.cuh"\n',
        "shared/factors.cuh": '#include "more/numbers.cuh"\n#include "factors.cuh"\n',
        "shared/more/numbers.cuh": "#define FACTOR 2\n",
        "shared/outside.cuh": "#define OTHER 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    recipe = Recipe((tmp_path / "kernel/scale.cu",))
    names = {path.relative_to(tmp_path).as_posix() for path in watched_files(recipe)}
    assert names == files.keys() - {"shared/outside.cuh"}

    first = plan_library(recipe, "sm_90", compiler).recipe_hash
    (tmp_path / "shared/more/numbers.cuh").write_text("#define FACTOR 3\n")
    assert plan_library(recipe, "sm_90", compiler).recipe_hash != first


@pytest.mark.parametrize("kernel", [mma_space, hopper_space])
def test_the_header_of_both_attention_kernels_is_part_of_their_hash(kernel):
    params = {"n_warps": 4} if kernel is mma_space else {"consumers": 3}
    names = {path.name for path in watched_files(kernel.recipe(params))}
    assert {"softmax_math.cuh", "softmax.cuh", "config.cuh"} <= names


def test_the_order_of_definitions_does_not_matter(recipe, compiler):
    turned = replace(recipe, defines={"BLOCK": 128, "WIDTH": 4})
    assert plan_library(recipe, "sm_90", compiler) == plan_library(turned, "sm_90", compiler)


def test_the_architecture_is_named_in_full(recipe, compiler):
    command = plan_library(recipe, "sm_90a", compiler).compilations[0].command
    assert "arch=compute_90a,code=sm_90a" in command


@pytest.mark.parametrize("arch", ["90", "sm_", "sm_90; rm -rf", "compute_90"])
def test_no_architecture(recipe, compiler, arch):
    with pytest.raises(ValueError, match="no architecture"):
        plan_library(recipe, arch, compiler)


def test_sources_whose_objects_would_meet_are_refused(compiler, tmp_path):
    recipe = Recipe((tmp_path / "a" / "k.cu", tmp_path / "b" / "k.cu"))
    with pytest.raises(ValueError, match="different names"):
        plan_library(recipe, "sm_90", compiler)


@pytest.mark.parametrize("name", ["a$b.cu", "a`b`.cu", 'a"b.cu', "a|b.cu", "a\\b.cu"])
def test_names_that_nvcc_cannot_read_are_refused(compiler, tmp_path, name):
    with pytest.raises(ValueError, match="cannot read"):
        plan_library(Recipe((tmp_path / name,)), "sm_90", compiler)


def test_equal_recipes_are_built_once(recipe, compiler, tmp_path):
    library = plan_library(recipe, "sm_90", compiler)
    path = write_ninja([library, plan_library(recipe, "sm_90", compiler)], tmp_path / "build")
    builds = [line for line in path.read_text().splitlines() if line.startswith("build ")]
    assert len(builds) == 2  # one object, one library
    assert (path.parent / library.recipe_hash).is_dir()


def test_ninja_and_shell_see_the_command_as_it_was_planned(compiler, tmp_path):
    folder = tmp_path / "two  spaces: and 'quotes'"
    folder.mkdir()
    (folder / "k.cu").write_text("")
    recipe = Recipe((folder / "k.cu",), {"NAME": '"$HOME"'})
    library = plan_library(recipe, "sm_90", compiler)
    text = write_ninja([library], tmp_path / "build").read_text()
    assert "two$ $ spaces$:$ and$ 'quotes'/k.cu" in text
    assert '-DNAME="$$HOME"' in text


def test_the_profilers_header_is_found_and_is_no_part_of_the_hash(recipe, compiler):
    library = plan_library(recipe, "sm_90", compiler)
    assert f"-I{INCLUDE_FOLDER}" in library.compilations[0].command
    assert str(INCLUDE_FOLDER) not in library.command
    assert TIMELINE_HEADER.is_file()
    stamped = plan_library(with_stamps(recipe), "sm_90", compiler)
    assert "-DPROFILER_TIMELINE=1" in stamped.command
    assert stamped.recipe_hash != library.recipe_hash


def test_depfile_paths():
    text = "out/k.o : /src/k.cu \\\n    /with\\ space/h.cuh \\\n    /money/$$x.h\n"
    assert depfile_paths(text) == ("/src/k.cu", "/with space/h.cuh", "/money/$x.h")
    assert depfile_paths("") == ()
