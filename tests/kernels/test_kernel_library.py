"""Functions of a built library: their arguments, and their codes as exceptions."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from profiler.kernels.library import KernelLibrary

SOURCE = """
int toy_add(double* sum, int a, double b) { *sum = a + b; return 0; }
int toy_fail(int code) { return code; }
const char* toy_error_string(int code) { return code < 0 ? "guarded" : "out of luck"; }
"""
COMPILER = shutil.which("cc")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "toy.c").write_text(SOURCE)
    command = [COMPILER, "-shared", "-fPIC", "-o", "libtoy.so", "toy.c"]
    subprocess.run(command, cwd=folder, check=True)
    return KernelLibrary(Path(folder / "libtoy.so"), "toy")


def test_arguments_are_converted_by_their_types(library):
    total = ctypes.c_double()
    add = library.function("add", ctypes.POINTER(ctypes.c_double), ctypes.c_int, ctypes.c_double)
    add(ctypes.byref(total), 2, 0.5)
    assert total.value == 2.5


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (700, r"^toy_fail failed: out of luck \(code 700\)$"),
        (-3, r"^toy_fail failed: guarded \(code -3\)$"),
    ],
)
def test_a_code_is_raised_with_its_message(library, code, text):
    fail = library.function("fail", ctypes.c_int)
    fail(0)
    with pytest.raises(RuntimeError, match=text):
        fail(code)


def test_a_function_that_the_library_lacks_is_an_error(library):
    with pytest.raises(AttributeError):
        library.function("absent")
