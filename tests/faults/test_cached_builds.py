"""A cached library is used only where it is what was built: its hash is kept and checked."""

import shutil
from pathlib import Path

import pytest

from profiler.errors import EnvironmentUnusable
from profiler.kernels.build import Compiler
from profiler.kernels.recipe import Recipe
from profiler.model import Variant
from profiler.sessions.builds import libraries
from profiler.sessions.builds.libraries import build_variants

NVCC = """#!/bin/sh
# Compiles nothing: an object holds the words of its command line, a library those of its objects.
out= ; dep= ; sources=
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out=$2; shift ;;
    -MF) dep=$2; shift ;;
    -D*) words="$words $1" ;;
    *.cu|*.o) sources="$sources $1" ;;
  esac
  shift
done
printf '\\177ELF %s' "$words" > "$out"
for source in $sources; do cat "$source" >> "$out"; done
[ -z "$dep" ] || echo "$out: $sources" > "$dep"
"""


@pytest.fixture
def compile_both(tmp_path, monkeypatch):
    """Build two variants with a stand-in for nvcc; gives results by variant."""
    if shutil.which("ninja") is None:
        pytest.skip("needs ninja")
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    source = tmp_path / "scale.cu"
    source.write_text("kernel")
    monkeypatch.setattr(libraries, "find_compiler", lambda: Compiler(nvcc, "stand-in 1.0"))
    monkeypatch.setattr(libraries, "check_arch", lambda arch, path: None)

    def compile_both():
        recipes = {name: Recipe((source,), {"WIDTH": name}) for name in ("four", "eight")}
        variants = [Variant(name, name) for name in recipes]
        results = build_variants(variants, recipes, arch="sm_90", build_root=tmp_path / "builds")
        return {result.variant: result for result in results}

    return compile_both


def library(result):
    assert result.ok, result.error
    return Path(result.library)


def test_what_was_built_is_taken_from_the_cache(compile_both):
    compile_both()
    assert all(result.cached for result in compile_both().values())


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        *(("library", damage) for damage in ("emptied", "replaced", "flipped")),
        *(("object", damage) for damage in ("cut", "replaced")),
    ],
)
def test_a_damaged_or_replaced_file_is_built_again(compile_both, part, damage):
    first = compile_both()
    good = {name: library(result).read_bytes() for name, result in first.items()}
    files = {
        name: library(result) if part == "library" else next(library(result).parent.glob("*.o"))
        for name, result in first.items()
    }
    content = files["four"].read_bytes()
    files["four"].write_bytes(
        {
            "cut": content[: len(content) // 2],
            "emptied": b"",
            "replaced": files["eight"].read_bytes(),
            "flipped": content[:-1] + bytes([content[-1] ^ 1]),
        }[damage]
    )
    again = compile_both()
    assert (again["four"].cached, again["eight"].cached) == (False, True)
    assert {name: library(result).read_bytes() for name, result in again.items()} == good


def test_an_object_that_is_none_is_not_linked_although_nothing_is_known_of_it(compile_both):
    result = compile_both()["four"]
    folder = library(result).parent
    good = library(result).read_bytes()
    (folder / "facts.json").unlink()
    next(folder.glob("*.o")).write_bytes(b"")
    assert library(compile_both()["four"]).read_bytes() == good


def test_what_stands_in_the_way_is_named(compile_both, tmp_path):
    (tmp_path / "builds").write_text("")
    with pytest.raises(EnvironmentUnusable, match="in the way of builds"):
        compile_both()


def test_a_folder_in_place_of_a_library_is_named(compile_both):
    path = library(compile_both()["four"])
    path.unlink()
    path.mkdir()
    with pytest.raises(EnvironmentUnusable, match=r"library\.so"):
        compile_both()
